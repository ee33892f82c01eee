"""Calls of functions and constructors in SQL, as nodes."""
