"""The columns that queries of a table filter by, from a file of SQL or from an event log of Spark.

A reader skips files by the bounds of a column if a query compares the column with constants. Z-order the table by these
columns.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.operations.optimize.z_order.z_order import check_columns
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store.uris import SCHEME

#: A column is suggested if at least this share of the queries filters by it.
_LEAST_SHARE = 0.1
#: With more columns, a query skips few files: it reads n^(1 - 1/columns) of n files.
_MOST_COLUMNS = 3
_STARTS = frozenset(
    (
        "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart",
        "org.apache.spark.sql.execution.ui.SparkListenerSQLAdaptiveExecutionUpdate",
    )
)
_SCAN = re.compile(r"^\(\d+\) Scan .*?(?=^\(\d+\) |\Z)", re.MULTILINE | re.DOTALL)
_FILTERS = re.compile(r"^(?:PushedFilters|DataFilters|PartitionFilters): \[(.*)\]$", re.MULTILINE)
#: A filter of a data source, such as ``EqualTo(customer,7)`` or ``In(day, [..])``; ``IsNotNull`` skips almost nothing.
_FILTER = re.compile(
    r"\b(?:EqualTo|EqualNullSafe|In|GreaterThan|GreaterThanOrEqual|LessThan|LessThanOrEqual|StringStartsWith)"
    r"\(`?([^,`]+?)`?,"
)


@dataclass(frozen=True)
class ColumnUse:
    """A column that queries filter by.

    Attributes:
        share: the share of the table's queries that filter by it.
        reason: why a table cannot be Z-ordered by it; "" if it can.
    """

    column: str
    share: float
    reason: str = ""


def column_uses(snapshot: Snapshot, queries: Iterable[frozenset[str]]) -> list[ColumnUse]:
    """The columns of a table that its queries filter by. The column of the most queries comes first.

    Args:
        queries: for each query of the table, the columns that it filters by.
    """
    names = {name.lower(): name for name in snapshot.schema.names}
    counts: Counter[str] = Counter()
    total = 0
    for columns in queries:
        total += 1
        counts.update({names[column.lower()] for column in columns if column.lower() in names})
    return [
        ColumnUse(name, count / total, _reason(snapshot, name))
        for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]


def suggested_columns(uses: Sequence[ColumnUse]) -> tuple[str, ...]:
    """The columns to Z-order by: at most three columns that at least a tenth of the queries filter by."""
    possible = [use.column for use in uses if not use.reason and use.share >= _LEAST_SHARE]
    return tuple(possible[:_MOST_COLUMNS])


def filtered_columns(text: str, table: str, location: str) -> list[frozenset[str]]:
    """For each query of a table in a file, the columns that it compares with constants.

    Args:
        text: SQL statements in Spark's dialect, separated by semicolons, or an event log of Spark (JSON lines).
        table: the name of the table in SQL, without its schema.
        location: the table's location, which the scans in an event log name.

    Raises:
        InvalidArgumentError: the text is neither SQL nor an event log.
    """
    if text.lstrip().startswith("{"):
        return list(_of_events(text.splitlines(), location))
    return list(_of_sql(text, table))


def _of_sql(text: str, table: str) -> Iterator[frozenset[str]]:
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    comparisons = (exp.EQ, exp.NullSafeEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.In, exp.Between, exp.Like)
    try:
        statements = sqlglot.parse(text, read="spark")
    except SqlglotError as error:
        raise InvalidArgumentError(
            f"the queries are not valid SQL of Spark: {str(error).splitlines()[0]}",
            hint="Give SQL statements that are separated by semicolons, or an event log of Spark",
        ) from None
    for statement in statements:
        tables = [] if statement is None else [each for each in statement.find_all(exp.Table) if _is(each, table)]
        if statement is None or not tables:
            continue
        aliases = {each.alias_or_name.lower() for each in tables} | {""}
        columns: set[str] = set()
        for comparison in statement.find_all(*comparisons):
            if comparison.find_ancestor(exp.Where, exp.Join) is None:  # such as a new value of an UPDATE
                continue
            both_sides = {column.sql(): column for column in comparison.find_all(exp.Column)}
            if len(both_sides) == 1 and comparison.find(exp.Select) is None:
                (column,) = both_sides.values()
                if column.table.lower() in aliases and _is_bare(comparison, column) and not _has_no_prefix(comparison):
                    columns.add(column.name)
        yield frozenset(columns)


def _is(table: object, name: str) -> bool:
    return str(getattr(table, "name", "")).lower() == name.lower()


def _is_bare(comparison: object, column: object) -> bool:
    """Whether a side of the comparison is the column itself. A function of a column cannot be compared with bounds."""
    return any(getattr(comparison, "args", {}).get(side) is column for side in ("this", "expression"))


def _has_no_prefix(comparison: Any) -> bool:
    """Whether the comparison is a LIKE whose pattern begins with a wildcard, so that no file can be skipped by it."""
    from sqlglot import exp

    return isinstance(comparison, exp.Like) and comparison.expression.name.startswith(("%", "_"))


def _of_events(lines: Iterable[str], location: str) -> Iterator[frozenset[str]]:
    # The scheme in the plan may differ from the scheme of the location. A scan may name folders of the table.
    path = re.sub(f"^{SCHEME}:", "", location).strip("/")
    is_of_table = re.compile(rf"[\[ ]{SCHEME}:/+{re.escape(path)}[/,\]]")
    by_execution: dict[object, frozenset[str] | None] = {}
    for line in lines:
        if "physicalPlanDescription" not in line:
            continue
        try:
            event = json.loads(line)
        except ValueError:  # the last line of a log of a running application
            continue
        if event.get("Event") not in _STARTS:
            continue
        scans = [scan for scan in _SCAN.findall(event["physicalPlanDescription"]) if is_of_table.search(scan)]
        if scans:  # an update of the plan replaces the first plan
            by_execution[event.get("executionId")] = frozenset(
                column.strip() for scan in scans for text in _FILTERS.findall(scan) for column in _FILTER.findall(text)
            )
    yield from (columns for columns in by_execution.values() if columns is not None)


def _reason(snapshot: Snapshot, column: str) -> str:
    try:
        check_columns(snapshot, [column], None)
    except InvalidArgumentError as error:
        return error.message
    return ""
