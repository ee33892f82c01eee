"""Checks and conversions of the arguments of a table's verbs."""
