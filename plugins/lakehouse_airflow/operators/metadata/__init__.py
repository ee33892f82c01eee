"""Operators that change metadata, restore, clone or pin a table, or write manifests for other programs."""
