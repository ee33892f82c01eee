"""Column names in SQL."""


def quoted(name: str) -> str:
    """The name in backquotes, as Spark's SQL reads it; the name may have any characters."""
    return "`" + name.replace("`", "``") + "`"
