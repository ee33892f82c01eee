"""Columns whose values a write computes: generated columns, defaults and identity columns."""
