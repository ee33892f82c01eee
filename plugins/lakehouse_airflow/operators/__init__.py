"""Operators, one file a verb or a family of them."""
