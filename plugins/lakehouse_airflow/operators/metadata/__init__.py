"""Operators that change a table as a whole, or describe it to other programs."""
