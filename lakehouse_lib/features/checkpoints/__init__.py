"""Features of checkpoints."""
