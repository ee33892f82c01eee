"""The regular expressions of rules: their form for RE2, and those for which Java may take exponential time."""
