"""The columns that the files of a batch add to a table (evolution ``add_columns``), before the batch is loaded."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.inference import additions
from lakehouse_lib.ingestion.inference.additions import new_column
from lakehouse_lib.ingestion.inference.column import InferredColumn
from lakehouse_lib.ingestion.inference.json_additions import with_json_additions
from lakehouse_lib.ingestion.inference.typed_additions import with_typed_additions
from lakehouse_lib.ingestion.landing import LandedFile
from lakehouse_lib.ingestion.sources.blocks import column_mismatches, refusal
from lakehouse_lib.ingestion.sources.csv import header_names, read_csv
from lakehouse_lib.ingestion.sources.source_format import TYPED_KINDS, SourceFormat
from lakehouse_lib.ingestion.tasks.path_columns import file_schema
from lakehouse_lib.schema import Schema, merge


def with_new_columns(
    files: Sequence[LandedFile], source_format: SourceFormat, schema: Schema, taken: Iterable[str] = ()
) -> Schema:
    """The schema with the columns and members of structs that only the files have. They are nullable, and at the end.

    A file that the load will refuse adds nothing, and neither does a file that would add more than ``MOST_COLUMNS``
    columns and members. A column or member that no table can store, or whose name differs from another only in case, is
    left out; so the load refuses its file, or in JSON its row.

    Args:
        taken: the names of the table's columns. A column of the table that the schema lacks is not added either.
    """
    schema_of_files = file_schema(schema.to_arrow(), source_format)
    names = frozenset(name.lower() for name in (*taken, *schema.names) if name not in schema_of_files.names)
    if source_format.kind in TYPED_KINDS:
        wider = with_typed_additions(files, source_format.kind, schema_of_files, names)
    elif source_format.kind == "csv":
        wider = _with_columns_of_csv(files, source_format, schema_of_files, names)
    else:
        wider = with_json_additions(files, source_format, schema_of_files, names)
    types = {field.name: field.type for field in schema_of_files}
    return merge(schema, pa.schema([field for field in wider if field.type != types.get(field.name)]))


def _with_columns_of_csv(
    files: Sequence[LandedFile], source_format: SourceFormat, schema: pa.Schema, taken: frozenset[str]
) -> pa.Schema:
    """As ``with_new_columns``. The type of a column fits all its values in the files."""
    columns: dict[str, InferredColumn] = {}
    for file in files:
        trial = copy.deepcopy(columns)  # a file may turn out to be damaged at its end

        def column(
            name: str, trial: dict[str, InferredColumn] = trial, file: LandedFile = file
        ) -> InferredColumn | None:
            if name in trial:
                return trial[name]
            if len(trial) == additions.MOST_COLUMNS:
                raise refusal(
                    file.name, [f"{name} is column {additions.MOST_COLUMNS + 1} of those to add to the table"]
                )
            if new_column(pa.field(name, pa.string()), (*schema.names, *trial), taken) is not None:
                trial[name] = InferredColumn(name, source_format)
            return trial.get(name)

        try:
            for name, texts in _texts_of_csv(file, source_format, schema, column):
                trial[name].add(texts)
        except SourceRefusedError:
            continue
        columns = trial
    return pa.schema([*schema, *(pa.field(name, inferred.type) for name, inferred in columns.items())])


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
