"""Conditions on rows in the metadata of a table: CHECK constraints and invariants."""
