"""Operators of an erasure, in the order locate, approve, erase, report."""
