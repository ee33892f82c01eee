"""Arrow helpers that are independent of tables."""
