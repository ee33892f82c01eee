"""Operators of an erasure, in this order: locate, approval, erase (delete and purge), report."""
