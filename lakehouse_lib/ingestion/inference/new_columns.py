"""The columns that new files add to a table (``evolution`` is ``add_columns``), before a batch of them is loaded."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakehouse_lib.arrow.values import strings
from lakehouse_lib.errors import InvalidSchemaError, SourceRefusedError
from lakehouse_lib.ingestion.inference.column import InferredColumn
from lakehouse_lib.ingestion.landing import LandedFile
from lakehouse_lib.ingestion.quarantine import quarantine_schema
from lakehouse_lib.ingestion.sources.blocks import column_mismatches, refusal
from lakehouse_lib.ingestion.sources.csv import header_names, read_csv
from lakehouse_lib.ingestion.sources.json.reader import misfits_of_json, read_json
from lakehouse_lib.ingestion.sources.orc import orc_head
from lakehouse_lib.ingestion.sources.parquet import parquet_head
from lakehouse_lib.ingestion.sources.source_format import TYPED_KINDS, SourceFormat
from lakehouse_lib.ingestion.sources.stored_columns import type_mismatches
from lakehouse_lib.ingestion.tasks.path_columns import file_schema
from lakehouse_lib.schema import Field, Schema
from lakehouse_lib.schema.usable import CHANGE_TYPE, COMMIT_TIMESTAMP, COMMIT_VERSION, all_names, is_storable

#: Keeps the texts of numbers, as a load does.
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)
#: The largest number of columns that a batch adds. Keys of JSON that are values, such as ids, would add a column each.
MOST_COLUMNS = 1000
_FEED_NAMES = (CHANGE_TYPE, COMMIT_VERSION, COMMIT_TIMESTAMP)


def with_new_columns(
    files: Sequence[LandedFile], source_format: SourceFormat, schema: Schema, taken: Iterable[str] = ()
) -> Schema:
    """The schema, and the columns that only the files have, as nullable columns at its end.

    Files that the load will refuse add no column, nor does a file that would add more than ``MOST_COLUMNS`` of them. A
    column that no table can store, or whose name differs from another only in case, is left out; so the load refuses
    its file, or in JSON its row.

    Args:
        taken: the names of the columns that the table has; those that the schema does not have are left out, too.
    """
    names = frozenset(name.lower() for name in taken if name not in schema)
    if source_format.kind in TYPED_KINDS:
        return _with_typed_columns(files, source_format, schema, names)
    return _with_text_columns(files, source_format, schema, names)


def _with_typed_columns(
    files: Sequence[LandedFile], source_format: SourceFormat, schema: Schema, taken: frozenset[str]
) -> Schema:
    """As ``with_new_columns``, by the schemas of the files. Of two types, the column gets the one that both fit."""
    read = orc_head if source_format.kind == "orc" else parquet_head
    schema_of_files, additions = file_schema(schema.to_arrow(), source_format), dict[str, pa.Field]()
    for file in files:
        try:
            stored, _ = read(file)
        except SourceRefusedError:
            continue
        trial = dict(additions)
        for column in stored:
            field = None if column.name in schema else _new_field(column, (*schema.names, *trial), taken)
            earlier = trial.get(column.name)
            if field is not None and (earlier is None or _fits(earlier, field)):
                trial[column.name] = field
        fits = not type_mismatches(pa.schema([*schema_of_files, *trial.values()]), stored, may_lack=True)
        if fits and len(trial) <= MOST_COLUMNS:
            additions = trial
    return Schema([*schema.fields, *_fields(additions.values())])


def _fields(columns: Iterable[pa.Field]) -> list[Field]:
    """Columns of the table. One of type null has no value, and becomes text, as a column without a value in CSV."""
    plain = pa.string()
    return [
        Field.from_arrow(column.with_type(plain) if pa.types.is_null(column.type) else column) for column in columns
    ]


def _new_field(column: pa.Field, names: Iterable[str], taken: frozenset[str]) -> pa.Field | None:
    """A column of a file in a type that tables have; None: it cannot be added to the columns with these names.

    Args:
        taken: names, in lower case, that no new column has.
    """
    own = column.name.lower()
    if own in taken or any(name.lower() == own and name != column.name for name in names):
        return None
    try:
        field = Field.from_arrow(pa.field(column.name, column.type))
        quarantine_schema(pa.schema([column]))
    except InvalidSchemaError:
        return None
    paths = all_names(Schema([field]))
    if column.name.lower() in _FEED_NAMES or not all(is_storable(path[-1]) for path in paths):
        return None
    return Schema([field]).to_arrow().field(0)


def _fits(column: pa.Field, other: pa.Field) -> bool:
    """Whether each value of a column is valid for the type of the other one."""
    return not type_mismatches(pa.schema([other]), pa.schema([column]))


def _with_text_columns(
    files: Sequence[LandedFile], source_format: SourceFormat, schema: Schema, taken: frozenset[str]
) -> Schema:
    """As ``with_new_columns``. The type of a column fits all its values in the files."""
    schema_of_files = file_schema(schema.to_arrow(), source_format)
    texts_of = _texts_of_csv if source_format.kind == "csv" else _texts_of_json
    additions: dict[str, InferredColumn] = {}
    for file in files:
        trial = copy.deepcopy(additions)  # a file may turn out to be damaged at its end

        def column(
            name: str, trial: dict[str, InferredColumn] = trial, file: LandedFile = file
        ) -> InferredColumn | None:
            if name in trial or name in schema:
                return trial.get(name)
            if len(trial) == MOST_COLUMNS:
                raise refusal(file.name, [f"{name} is column {MOST_COLUMNS + 1} of those to add to the table"])
            if _new_field(pa.field(name, pa.string()), (*schema.names, *trial), taken) is not None:
                trial[name] = InferredColumn(name, source_format)
            return trial.get(name)

        try:
            for name, texts in texts_of(file, source_format, schema_of_files, column):
                trial[name].add(texts)
            if source_format.kind != "csv":  # the first block checks the keys of the first object
                next(read_json(file, source_format, pa.schema([*schema_of_files, *_columns(trial)])), None)
        except SourceRefusedError:
            continue
        additions = trial
    return Schema([*schema.fields, *_fields(_columns(additions))])


def _columns(inferred: Mapping[str, InferredColumn]) -> list[pa.Field]:
    return [pa.field(name, column.type) for name, column in inferred.items()]


_Column = Callable[[str], InferredColumn | None]


def _texts_of_csv(
    file: LandedFile, source_format: SourceFormat, schema_of_files: pa.Schema, column: _Column
) -> Iterator[tuple[str, Any]]:
    """The texts of each new column in each block of a file."""
    own = header_names(file, source_format)
    new = [name for name in own if name not in schema_of_files.names]
    needed = [field for field in schema_of_files if not field.nullable or field.name in own]
    mismatches = column_mismatches(pa.schema([*needed, *((name, pa.string()) for name in dict.fromkeys(new))]), own)
    mismatches += [f"{name} cannot be added to the table" for name in new if not mismatches and column(name) is None]
    if mismatches:
        raise refusal(file.name, mismatches)
    if not new:
        return
    schema = pa.schema([(name, pa.string()) for name in own])
    for parse in read_csv(file, source_format, schema):
        block = parse()
        for name in new:
            yield name, block.texts[own.index(name)]


def _texts_of_json(
    file: LandedFile, source_format: SourceFormat, schema_of_files: pa.Schema, column: _Column
) -> Iterator[tuple[str, Any]]:
    """The texts of each new key in each block of a file that has it. Keys with nested values are left out."""
    for texts in misfits_of_json(file, source_format, schema_of_files):
        by_name: dict[str, list[Any]] = {}
        for text in texts.to_pylist():
            for name, value in _DECODER.decode(f"{{{text}}}").items():
                by_name.setdefault(name, []).append(str(value).lower() if isinstance(value, bool) else value)
        for name, values in by_name.items():
            is_new = name not in schema_of_files.names and not any(isinstance(value, (dict, list)) for value in values)
            if is_new and column(name) is not None:
                yield name, strings(values)
