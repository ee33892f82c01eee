"""``table.merge(...)``: the clauses of a MERGE, with the methods of the ``deltalake`` package."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse_lib.engine.incoming import incoming, is_spark_dataframe
from lakehouse_lib.errors import InvalidArgumentError, MetadataChangedError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.schema import DataType, Field, PrimitiveType, Schema, align
from lakehouse_lib.schema.rows.enforcement import type_mismatches
from lakehouse_lib.schema.usable import all_names
from lakehouse_lib.table.arguments.assignments import assigned_values, column_named
from lakehouse_lib.table.arguments.source_columns import with_source_columns
from lakehouse_lib.table.deltalake_metrics import merge_metrics
from lakehouse_lib.transaction.commit_properties import CommitProperties

if TYPE_CHECKING:
    from lakehouse_lib.engine.merge_plan import MergeAction, MergeCase, MergeClause
    from lakehouse_lib.engine.writer_properties import WriterProperties
    from lakehouse_lib.expressions import Value
    from lakehouse_lib.expressions.namespace import MergeNamespace
    from lakehouse_lib.operations.results import ChangeResult
    from lakehouse_lib.snapshot import Snapshot
    from lakehouse_lib.table.delta_table import DeltaTable


class TableMerger:
    """A MERGE of a source into a table. The ``when_...`` methods add clauses, and ``execute`` runs the merge.

    Each row belongs to one case (matched, not matched, not matched by source). The first clause of this case whose
    predicate is true is applied to the row. Without such a clause the row is not changed.

    In SQL, ``alias.column`` is a column of the source or of the table. A name without an alias is a column that only
    one of the two has.
    """

    def __init__(
        self,
        table: DeltaTable,
        source: Any,
        predicate: str,
        aliases: tuple[str, str],
        merge_schema: bool,
        writer_properties: WriterProperties | None,
        commit_properties: CommitProperties | None,
    ) -> None:
        from lakehouse_lib.expressions import parse
        from lakehouse_lib.expressions.namespace import MergeNamespace

        self._table = table
        self._writer_properties = writer_properties
        self._commit_properties = commit_properties
        _check_names(predicate, aliases, table.table_uri)
        self._snapshot = table._latest()
        self._source, source_schema = _fitted(rows_of(source, table.table_uri), self._snapshot.schema)
        self._merges_schema = merge_schema
        #: The schema after the merge, if a clause assigns all columns of the source.
        self._columns = _widest_schema(self._snapshot, self._source) if merge_schema else self._snapshot.schema
        self._names = MergeNamespace(self._snapshot.schema, source_schema, aliases)
        self._condition = parse(predicate, self._names, table=table.table_uri)
        self._clauses: list[MergeClause] = []

    def when_matched_update(self, updates: Mapping[str, str], predicate: str | None = None) -> TableMerger:
        """Update matched rows.

        Args:
            updates: column of the target -> SQL expression on the columns of both sides.
            predicate: SQL on the columns of both sides; None: all matched rows.
        """
        return self._add("matched", "update", predicate, updates=updates)

    def when_matched_update_all(
        self, predicate: str | None = None, except_cols: Sequence[str] | None = None
    ) -> TableMerger:
        """Update matched rows with all columns of the source, by name.

        Args:
            except_cols: columns that are not updated; None: update all.
        """
        return self._add("matched", "update", predicate, except_columns=except_cols or ())

    def when_matched_delete(self, predicate: str | None = None) -> TableMerger:
        """Delete matched rows."""
        return self._add("matched", "delete", predicate)

    def when_not_matched_insert(self, updates: Mapping[str, str], predicate: str | None = None) -> TableMerger:
        """Insert rows of the source that match no row of the target.

        Args:
            updates: column of the target -> SQL expression on the columns of the source. Other columns get their
                computed or default value, or NULL.
            predicate: SQL on the columns of the source; None: all these rows.
        """
        return self._add("not matched", "insert", predicate, updates=updates)

    def when_not_matched_insert_all(
        self, predicate: str | None = None, except_cols: Sequence[str] | None = None
    ) -> TableMerger:
        """Insert rows of the source that match no row of the target; set all columns of the source, by name.

        Args:
            except_cols: columns of the source that are not inserted; None: insert all.
        """
        return self._add("not matched", "insert", predicate, except_columns=except_cols or ())

    def when_not_matched_by_source_update(
        self, updates: Mapping[str, str], predicate: str | None = None
    ) -> TableMerger:
        """Update rows of the target that match no row of the source.

        Args:
            updates: column of the target -> SQL expression on the columns of the target.
            predicate: SQL on the columns of the target; None: all these rows.
        """
        return self._add("not matched by source", "update", predicate, updates=updates)

    def when_not_matched_by_source_delete(self, predicate: str | None = None) -> TableMerger:
        """Delete rows of the target that match no row of the source."""
        return self._add("not matched by source", "delete", predicate)

    def execute(self) -> dict[str, Any]:
        """Run the merge in one commit; see ``operations.dml.merge``.

        Returns:
            ``deltalake``'s metrics, ``num_deletion_vectors`` (the number of files that got a deletion vector) and
            ``version``, the table's version after the merge.

        Raises:
            MetadataChangedError: the schema of the table changed after ``merge()`` was called.
            DeltaError: as ``operations.dml.merge``.
        """
        return merge_metrics(self.run())

    def run(self) -> ChangeResult:
        """Run the merge as ``execute``, and return its result with delta-spark's metrics."""
        from lakehouse_lib.features.computed_columns.identity_columns import without_marks
        from lakehouse_lib.operations.dml.merge import merge

        table = self._table
        latest = table._latest()
        before, after = (snapshot.metadata.schema_string for snapshot in (self._snapshot, latest))
        if before != after and without_marks(before) != without_marks(after):
            raise MetadataChangedError(
                "the schema of the table changed after merge() was called",
                table=table.table_uri,
                version=latest.version,
                hint="Build the merge again",
            )
        source, condition, clauses = with_source_columns(
            self._source, self._condition, self._clauses, self._names, self._columns, table.engine
        )
        result = merge(
            latest,
            source,
            condition,
            clauses,
            table.engine,
            merges_schema=self._merges_schema,
            writer_properties=self._writer_properties,
            commit_properties=self._commit_properties,
        )
        table._move_on(result.version)
        return result

    def add_clauses(self, clauses: Sequence[Mapping[str, Mapping[str, Any]]]) -> TableMerger:
        """Add clauses from JSON-like data, such as ``[{"when_matched_update_all": {}}]``.

        Args:
            clauses: for each clause, a mapping of the method's name to its arguments.

        Raises:
            InvalidArgumentError: a clause is not such a mapping, or has an unknown method or argument.
        """
        check_clauses(clauses, table=self._table.table_uri)
        for clause in clauses:
            ((method, arguments),) = clause.items()
            getattr(self, method)(**arguments)
        return self

    def _add(
        self,
        case: MergeCase,
        action: MergeAction,
        predicate: str | None,
        *,
        updates: Mapping[str, str] | None = None,
        except_columns: Sequence[str] | None = None,
    ) -> TableMerger:
        from lakehouse_lib.engine.merge_plan import MergeClause
        from lakehouse_lib.expressions import parse
        from lakehouse_lib.expressions.namespace import SOURCE, TARGET

        names = {
            "matched": self._names,
            "not matched": self._names.within([SOURCE]),
            "not matched by source": self._names.within([TARGET]),
        }[case]
        values: dict[str, Value] | None = None
        if except_columns is not None:
            values = self._all_values(except_columns)
        elif action != "delete":
            values = self._values(updates, names)
        condition = None if predicate is None else parse(predicate, names, table=self._table.table_uri)
        self._clauses.append(MergeClause(case, action, condition, values))
        return self

    def _invalid(self, message: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            message,
            table=self._table.table_uri,
            hint='Give {"column": "expression"} for the columns to change, or a list of columns as except_cols',
            code="DELTA_INVALID_MERGE",
        )

    def _values(self, updates: Mapping[str, str] | None, names: MergeNamespace) -> dict[str, Value]:
        from lakehouse_lib.expressions import parse_value
        from lakehouse_lib.expressions.namespace import TARGET

        if not isinstance(updates, Mapping):
            raise self._invalid(f"updates is {excerpt(updates)}; expected a mapping")
        values = assigned_values(
            updates,
            self._snapshot,
            lambda sql, column: parse_value(sql, column, names, table=self._table.table_uri),
            schema=self._columns,
            alias=self._names.aliases[TARGET],
            old_values=(TARGET,) if TARGET in names.sides else None,
        )
        if not values:
            raise self._invalid("updates is empty; expected a value for at least one column")
        return values

    def _all_values(self, except_columns: Sequence[str]) -> dict[str, Value]:
        """The values of a clause that assigns all columns of the source, by the target's columns of the same names."""
        from lakehouse_lib.expressions import parse_value
        from lakehouse_lib.expressions.namespace import SOURCE
        from lakehouse_lib.schema.quoting import quoted

        is_list = isinstance(except_columns, Collection) and not isinstance(except_columns, str)
        if not is_list or not all(isinstance(name, str) for name in except_columns):
            raise self._invalid(f"except_cols is {excerpt(except_columns)}; expected a list of column names")
        left_out = {self._column_left_out(name) for name in except_columns}
        values: dict[str, Value] = {}
        for name in self._source.column_names:
            if name.lower() in left_out:
                continue
            column = self._columns.get(name)
            if column is None:
                raise InvalidArgumentError(
                    f"the source has a column {name!r}, which the table does not have",
                    table=self._table.table_uri,
                    version=self._snapshot.version,
                    hint=f"Pass except_cols=[{name!r}] to the clause, or merge_schema=True to merge()",
                    code="DELTA_COLUMN_NOT_FOUND",
                )
            sql = f"{quoted(self._names.aliases[SOURCE])}.{quoted(name)}"
            values[column.name] = parse_value(sql, column, self._names, table=self._table.table_uri)
        if not values:
            raise self._invalid("except_cols leaves no column of the source; expected at least one")
        return values

    def _column_left_out(self, name: str) -> str:
        """The column of the target or of the source that ``except_cols`` names, in lower case."""
        for side, alias in self._names.aliases.items():
            column = column_named(name, self._names.schemas[side], alias)
            if column is not None:
                return column.name.lower()
        raise self._invalid(f"except_cols has {name!r}; expected columns of the source or the target")


def check_clauses(clauses: Any, *, table: str) -> None:
    """Check the form of the argument of ``TableMerger.add_clauses``.

    Raises:
        InvalidArgumentError: a clause is not a mapping of the name of one ``when_...`` method to its arguments.
    """
    methods = {
        name: inspect.signature(method) for name, method in vars(TableMerger).items() if name.startswith("when_")
    }
    for clause in clauses if isinstance(clauses, (list, tuple)) else [clauses]:
        try:
            ((method, arguments),) = clause.items()
            methods[method].bind(None, **arguments)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"the clause of the merge is {excerpt(clause)}; expected one method with its arguments ({error})",
                table=table,
                hint=f'Give a list such as [{{"when_matched_update_all": {{}}}}]; the methods are {", ".join(methods)}',
                code="DELTA_INVALID_MERGE",
            ) from error


def _check_names(predicate: object, aliases: tuple[object, object], table: str) -> None:
    if not isinstance(predicate, str):
        raise InvalidArgumentError(
            f"the predicate of the merge is {excerpt(predicate)}; expected SQL text",
            table=table,
            hint="Write a condition on columns of both sides, such as target.id = source.id",
        )
    target, source = aliases
    if not isinstance(target, str) or not isinstance(source, str) or target.lower() == source.lower():
        raise InvalidArgumentError(
            f"the aliases of target and source are {target!r} and {source!r}; expected different names",
            table=table,
            hint="Give different names as target_alias and source_alias, regardless of case",
            code="DELTA_INVALID_MERGE",
        )


def rows_of(source: Any, table: str) -> pa.Table:
    """All rows of a source, in types that a table can have."""
    try:
        # Each task joins with the whole source. So a Spark DataFrame is computed once, here, and not in each task.
        rows = incoming(source.toArrow() if is_spark_dataframe(source) else source)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"the source cannot be read: {error.message}", table=table, hint=error.hint, code=error.code
        ) from error
    return align(rows.rows.read_all(), Schema.from_arrow(rows.schema), table=table)


def _widest_schema(snapshot: Snapshot, source: pa.Table) -> Schema:
    from lakehouse_lib.operations.dml.merge import new_source_columns
    from lakehouse_lib.operations.write.wider_schema import with_new_columns

    metadata = with_new_columns(snapshot, new_source_columns(snapshot.schema, source.schema))
    return Schema.from_json(metadata.schema_string)


def _fitted(source: pa.Table, schema: Schema) -> tuple[pa.Table, Schema]:
    """The source and its columns. A column without values, or a nested column, may get the type of the table's column.

    A column of the type void, such as a column of an empty list of rows, gets the type of the table's column of the
    same name. So does a nested column with the same members in another order. Other columns are converted by the clause
    that assigns them.
    """
    fields = []
    for index, field in enumerate(Schema.from_arrow(source.schema).fields):
        column = schema.get(field.name)
        if column is not None and _fits(field.type, column.type):
            field = Field(field.name, column.type)
            rows = align(source.select([index]), Schema([field]))
            source = source.set_column(index, rows.schema.field(0), rows.column(0))
        fields.append(field)
    return source, Schema(fields)


def _fits(kind: DataType, own: DataType) -> bool:
    """Whether a source's type ``kind`` fits the table's type ``own``: void, or nested with the members of ``own``."""
    if isinstance(kind, PrimitiveType):
        return kind == PrimitiveType("void")
    names = {tuple(map(str.lower, path)) for path in all_names(kind)}
    has_all = all(tuple(map(str.lower, path)) in names for path in all_names(own))
    return has_all and not list(type_mismatches(own, kind, "", True))
