"""Verbs that change rows."""
