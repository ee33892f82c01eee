"""``QueryBuilder``: queries in SQL over tables, run by DuckDB in this process."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from lakehouse_lib.errors import InvalidArgumentError, NotSupportedError, UnsupportedFeatureError

if TYPE_CHECKING:
    import pyarrow as pa

    from lakehouse_lib.table.delta_table import DeltaTable

#: Queries read only the registered tables. They read no files, and no variables of Python.
_CONFIGURATION: dict[str, Any] = {"enable_external_access": "false", "python_enable_replacements": "false"}
#: Times are in UTC, and strings are views as in ``deltalake``.
_SETTINGS = ("SET TimeZone = 'UTC'", "SET produce_arrow_string_view = true", "SET arrow_output_version = '1.4'")


class QueryBuilder:
    """Queries over registered tables, in DuckDB's SQL (``deltalake`` has DataFusion's).

    Args:
        session_config: must be None or empty, because ``deltalake`` has settings of DataFusion here.

    Raises:
        NotSupportedError: DuckDB is not installed, or there are settings.
    """

    def __init__(self, session_config: dict[str, str] | None = None) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise NotSupportedError(
                "QueryBuilder needs DuckDB, which is not installed", hint="Install lakehouse-lib[sql]"
            ) from error
        if session_config:
            raise NotSupportedError(
                f"session_config has {', '.join(session_config)}; expected no settings",
                hint="Leave session_config out: its settings are for DataFusion, and DuckDB runs the queries",
            )
        self._connect = partial(duckdb.connect, config=_CONFIGURATION)
        self._tables: dict[str, Any] = {}

    def register(self, table_name: str, delta_table: DeltaTable) -> QueryBuilder:
        """Register the open version of a table under a name. Queries do not see later versions.

        A table that cannot be a pyarrow dataset, for example because it has deletion vectors, is read into memory.
        """
        rows: Any
        try:
            rows = delta_table.to_pyarrow_dataset()
        except UnsupportedFeatureError:
            rows = delta_table.to_pyarrow_table()
        self._tables[table_name] = rows
        return self

    def execute(self, sql: str) -> pa.RecordBatchReader:
        """The rows of a query as a stream.

        Raises:
            InvalidArgumentError: DuckDB cannot run the query.
        """
        import duckdb

        # A connection can have only one open result, so each query opens its own connection.
        connection = self._connect()
        for setting in _SETTINGS:
            connection.execute(setting)
        for name, rows in self._tables.items():
            _register(connection, name, rows)
        try:
            return connection.execute(sql).to_arrow_reader()
        except duckdb.Error as error:
            raise InvalidArgumentError(
                f"the query cannot be run: {error}", hint="Write SQL of DuckDB over the registered tables"
            ) from error


def _register(connection: Any, name: str, rows: Any) -> None:
    """Register rows under a name in a connection.

    DuckDB lets pyarrow filter columns, but not expressions. In SQL, NaN is equal to NaN and greater than every number;
    in pyarrow it is not. So columns with floating-point numbers become expressions, and DuckDB filters them itself.
    """
    columns = [_quoted(field.name) for field in rows.schema if _has_floats(field.type)]
    if not columns:
        connection.register(name, rows)
        return
    stored_name = f"{name} (stored)"
    connection.register(stored_name, rows)
    values = ", ".join(f"coalesce({column}, {column}) AS {column}" for column in columns)
    connection.execute(
        f"CREATE OR REPLACE TEMP VIEW {_quoted(name)} AS SELECT * REPLACE ({values}) FROM {_quoted(stored_name)}"  # noqa: S608 - names are quoted
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _has_floats(kind: pa.DataType) -> bool:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return any(_has_floats(field.type) for field in kind)
    return bool(pa.types.is_floating(kind))
