"""``QueryBuilder``: queries in SQL, which this library leaves to query engines."""

from __future__ import annotations

from lakehouse_lib.errors import NotSupportedError


class QueryBuilder:
    """The class of the ``deltalake`` package with which DataFusion runs queries; this library has no DataFusion.

    Raises:
        NotSupportedError: always.
    """

    def __init__(self, session_config: dict[str, str] | None = None) -> None:  # noqa: ARG002 - the signature of deltalake
        raise NotSupportedError(
            "QueryBuilder needs DataFusion, which this library does not have",
            hint="Query the table with DuckDB: rows = table.scan(); duckdb.sql('SELECT * FROM rows')",
        )
