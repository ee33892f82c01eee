"""Column names in SQL."""


def quoted(name: str) -> str:
    """The name in backticks, as Spark's SQL reads it; it may have any characters."""
    return "`" + name.replace("`", "``") + "`"
