"""Operators that change a table, or describe it to other programs, and write no data files."""
