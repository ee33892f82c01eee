"""Names of columns in SQL."""


def quoted(name: str) -> str:
    """A name as Spark's SQL reads it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"
