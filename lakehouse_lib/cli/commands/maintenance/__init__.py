"""The commands that maintain tables."""
