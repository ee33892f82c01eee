"""Arguments of the verbs of a table: those by position, and predicates."""
