"""Find every row of a person: the keys in each table, and the number of rows with these keys. Nothing is written.

Only the key columns of files that may match are read, a row group at a time. All files of a quarantine are read,
because a quarantine can spell a key in several ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import expressions
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import InvalidArgumentError, TableNotFoundError
from lakehouse_lib.privacy import sql, unattributed
from lakehouse_lib.privacy.key_texts import KeyTexts, read_keys, spellings
from lakehouse_lib.privacy.keys import ColumnKeys
from lakehouse_lib.privacy.matches import count_live
from lakehouse_lib.privacy.subject import Subject, Through
from lakehouse_lib.privacy.unattributed import Unattributed
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import open_store


@dataclass(frozen=True)
class LocatedRows:
    """The subject's rows of one table, by one key column.

    Attributes:
        table, uri: the table's name and location.
        table_id: the ``id`` in the table's metadata; a recreated table has another id.
        version: the version that was read.
        keys: the typed keys of the rows.
        rows, files: the number of these rows, and of live files that hold the rows.
        unattributed: records of a quarantine without a readable key, which may be the subject's; not counted in
            ``rows``. None for a table that is not a quarantine.
    """

    table: str
    uri: str
    table_id: str
    version: int
    keys: ColumnKeys
    rows: int
    files: int
    unattributed: Unattributed | None = None

    @property
    def predicate(self) -> str:
        """SQL that is true for exactly these rows; ``FALSE`` without keys."""
        return self.keys.sql()


def locate(
    subject: Subject,
    subject_id: object,
    tables: Mapping[str, str],
    *,
    storage_options: Mapping[str, dict[str, str] | None] | None = None,
    engine: Engine | None = None,
) -> list[LocatedRows]:
    """The subject's rows in each table, in the order of ``subject.rows``. Erase the last table first.

    Entries with the same table and key are merged. A quarantine that does not exist is left out. A text in a quarantine
    counts as a key if the load would read the text as that key (``0004711`` as 4711). To find such texts, the key
    column of each file of the quarantine on disk is read.

    Args:
        subject_id: the person's identifier; text with a whole number is a valid ``long``.
        tables: location by table name.
        storage_options: options of each table's store, by table name; default none.

    Raises:
        InvalidArgumentError: the identifier is not of the subject's type, a table has no location, or a key column
            does not exist or cannot be compared with an identifier.
        TableNotFoundError: a table that is not a quarantine does not exist.
        InvalidPredicateError: as ``unattributed.find``.
    """
    value = subject.value(subject_id)
    engine = engine or ArrowEngine()
    opened = _Tables(tables, storage_options or {})
    keys: dict[tuple[str, str], set[int | str]] = {}
    texts: dict[tuple[str, str], KeyTexts] = {}
    for rows in subject.rows:
        snapshot = opened.get(rows.table, optional=rows.quarantine)
        if snapshot is None:
            continue
        snapshot.field(rows.key)
        key_values = keys.setdefault((rows.table, rows.key), set())
        key_values.update([value] if rows.through is None else _through(subject, opened, rows.through, value, engine))
        if rows.quarantine:
            types = _loaded_as(subject, opened, rows.key, value if rows.through is None else None)
            texts[rows.table, rows.key] = KeyTexts.of(key_values, types)
    located = []
    for (table, key), values in keys.items():
        snapshot = opened.get(table)
        assert snapshot is not None
        key_texts = texts.get((table, key))
        if key_texts is not None:
            values |= spellings(snapshot, key, key_texts, engine)
        column_keys = _keys(snapshot, table, key, values)
        rows_found, files = count_live(snapshot, column_keys.sql(), engine)
        unknown = unattributed.find(snapshot, key, key_texts, engine) if key_texts is not None else None
        version, table_id = snapshot.version, snapshot.metadata.id
        located.append(LocatedRows(table, tables[table], table_id, version, column_keys, rows_found, files, unknown))
    return located


def _loaded_as(subject: Subject, opened: _Tables, column: str, identifier: int | str | None) -> list[pa.DataType]:
    """The types that the load gives a column of a quarantine: those of columns with its name in the subject's tables.

    Args:
        identifier: the person's identifier, if the column holds identifiers; None: it holds other keys. If no table has
            such a column, the result is the type of the identifier, or both integer and text for None.
    """
    places = [(rows.table, rows.key) for rows in subject.rows if not rows.quarantine]
    for through in (rows.through for rows in subject.rows):
        if through is not None and not through.quarantine:
            places += [(through.table, through.key), (through.table, through.select)]
    types = []
    for table, name in dict.fromkeys(places):
        if name.lower() == column.lower() and (snapshot := opened.get(table)) is not None:
            types.append(snapshot.field(name).type.to_arrow())
    unknown = [pa.int64(), pa.string()] if identifier is None else [pa.scalar(identifier).type]
    return list(dict.fromkeys(types)) or unknown


def _through(
    subject: Subject, opened: _Tables, through: Through, value: int | str, engine: Engine
) -> Iterator[int | str]:
    snapshot = opened.get(through.table, optional=through.quarantine)
    if snapshot is None:
        return
    column = _keys(snapshot, through.table, through.select, ()).column
    values = {value}
    if through.quarantine:
        keys = KeyTexts.of(values, _loaded_as(subject, opened, through.key, value))
        values |= spellings(snapshot, through.key, keys, engine)
    condition = _keys(snapshot, through.table, through.key, values).sql()
    predicate = expressions.parse(condition, snapshot.schema, table=snapshot.store.root, label=sql.LABEL)
    reader: pa.RecordBatchReader = engine.read(snapshot, [column], predicate)
    types = _loaded_as(subject, opened, through.select, None) if through.quarantine else []
    for batch in reader:
        if types and pa.types.is_string(batch.column(0).type):
            yield from read_keys(batch.column(0), types)
            continue
        for key in pc.unique(pc.drop_null(batch.column(0))).to_pylist():
            if not isinstance(key, str) and key != int(key):
                raise InvalidArgumentError(
                    f"column {through.select} of {through.table} holds fractions; expected whole numbers",
                    table=snapshot.store.root,
                    version=snapshot.version,
                    hint="Select a column of strings or whole numbers",
                    code="DELTA_INVALID_SUBJECT",
                )
            yield key if isinstance(key, str) else int(key)


def _keys(snapshot: Snapshot, table: str, key: str, values: Iterable[int | str]) -> ColumnKeys:
    field = snapshot.field(key)
    try:
        return ColumnKeys.of(field, values)
    except TypeError as error:
        raise InvalidArgumentError(
            f"key column {key} of {table} is {field.type}; expected a string, a whole number or a decimal",
            table=snapshot.store.root,
            version=snapshot.version,
            hint="Name another key column in the subject",
            code="DELTA_INVALID_SUBJECT",
        ) from error


class _Tables:
    """A cache of snapshots: each table is read at one version."""

    def __init__(self, uris: Mapping[str, str], storage_options: Mapping[str, dict[str, str] | None]) -> None:
        self._uris = uris
        self._storage_options = storage_options
        self._snapshots: dict[str, Snapshot | None] = {}

    def get(self, table: str, *, optional: bool = False) -> Snapshot | None:
        if table not in self._uris:
            raise InvalidArgumentError(
                f"the subject's table {table!r} has no location; expected one of "
                f"{', '.join(sorted(self._uris)) or 'no table'}",
                hint="Give the location of each of the subject's tables",
                code="DELTA_INVALID_SUBJECT",
            )
        if table not in self._snapshots:
            try:
                self._snapshots[table] = load_snapshot(open_store(self._uris[table], self._storage_options.get(table)))
            except TableNotFoundError:
                if not optional:
                    raise
                self._snapshots[table] = None
        return self._snapshots[table]
