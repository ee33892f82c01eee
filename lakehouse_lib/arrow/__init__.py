"""Arrow helpers that know nothing of tables."""
