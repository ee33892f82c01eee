"""Descriptions of a table from its log."""
