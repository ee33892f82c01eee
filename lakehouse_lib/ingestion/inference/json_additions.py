"""The columns and members that JSON files add to a schema, with types that fit the values of their keys."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.inference import additions
from lakehouse_lib.ingestion.inference.additions import new_column
from lakehouse_lib.ingestion.inference.json_value import FieldLimit, InferredValue
from lakehouse_lib.ingestion.landing import LandedFile
from lakehouse_lib.ingestion.sources.json.reader import misfits_of_json, read_json
from lakehouse_lib.ingestion.sources.source_format import SourceFormat

#: Keeps the texts of numbers, as a load does.
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str)


def with_json_additions(
    files: Sequence[LandedFile], source_format: SourceFormat, schema: pa.Schema, taken: frozenset[str]
) -> pa.Schema:
    """The schema with the columns and members that only the objects have. The type of each fits all its values.

    A key whose values in a file are of several kinds (objects, arrays, plain values) is left out. If a later file has
    values of another kind than earlier files, the kind of the earlier files stays.

    Args:
        schema: the columns of the table that the files have.
        taken: names, in lower case, that a new column must not have.
    """

    def accepts(name: str) -> bool:
        return new_column(pa.field(name, pa.string()), (), taken) is not None

    rows = InferredValue("", source_format, pa.struct(list(schema)), accepts=accepts)
    for file in files:
        trial = copy.deepcopy(rows)  # a file may turn out to be damaged at its end
        limit = FieldLimit(file.name, additions.MOST_COLUMNS - trial.additions)
        try:
            for objects in _misfits(file, source_format, schema):
                trial.add(objects, limit)
            # The first block checks the keys of the first object.
            next(read_json(file, source_format, pa.schema(list(_struct(trial)))), None)
        except SourceRefusedError:
            continue
        trial.settle()
        rows = trial
    return pa.schema(list(_struct(rows)))


def _struct(rows: InferredValue) -> pa.StructType:
    kind = rows.type
    assert kind is not None  # rows have the type of the schema
    return kind


def _misfits(file: LandedFile, source_format: SourceFormat, schema: pa.Schema) -> Iterator[list[dict[str, Any]]]:
    """For each block of a file, its objects with only those members that do not fit the schema."""
    loose = pa.schema([field.with_nullable(True) for field in schema])
    for arrays in misfits_of_json(file, source_format, loose):
        texts = (text for array in arrays for text in array.to_pylist())
        yield [value for text in texts if (value := _decoded(text)) is not None]


def _decoded(text: str) -> dict[str, Any] | None:
    """The object of some members; None: it is nested too deep for Python."""
    try:
        value: dict[str, Any] = _DECODER.decode(f"{{{text}}}")
    except RecursionError:
        return None
    return value
