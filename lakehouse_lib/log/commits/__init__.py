"""Commit files and log compactions: their lines, and the actions in them."""
