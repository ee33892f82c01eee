"""Columns whose values a write computes: generated columns and defaults."""
