"""Conflicts of a transaction with winning commits: the rules, the isolation levels, and the text of the error."""
