"""Columns that the files do not have: their values are in folder names, as in ``day=2026-01-01/a.csv``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from lakehouse_lib.arrow.values import strings
from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.sources.blocks import TextBlock, TypedBlock
from lakehouse_lib.ingestion.sources.casts import type_name
from lakehouse_lib.ingestion.sources.cells import typed_cells
from lakehouse_lib.ingestion.sources.source_format import RESCUE, RESCUED, SourceFormat
from lakehouse_lib.protocol.partition_values import folders


class PathColumns:
    """The path columns of a file, and an empty column ``_rescued`` if the source has one.

    Args:
        name: the file's name.
        schema: the schema of the table.

    Raises:
        SourceRefusedError: the name lacks the value of a column, or has one that does not fit the column's type.
    """

    def __init__(self, name: str, schema: pa.Schema, source_format: SourceFormat) -> None:
        texts = folders(name.rpartition("/")[0])
        missing = [column for column in source_format.path_columns if column not in texts]
        if missing:
            raise SourceRefusedError(
                f"the path of {name} has no folder {', '.join(f'{column}=...' for column in missing)}",
                hint="Move the file to a folder with this name, or change the path columns of the source",
            )
        self._schema = schema
        self._texts: dict[str, Any] = {column: strings([texts[column]]) for column in source_format.path_columns}
        if source_format.evolution == RESCUE:
            self._texts[RESCUED] = strings([None])
        self._values = {}
        for column, text in self._texts.items():
            field = schema.field(column)
            value, wrong = typed_cells(text, field, source_format)
            if wrong.any() or (text.null_count == 0 and value.null_count):
                raise SourceRefusedError(
                    f"{name} has {column}={texts[column]} in its path, which is not a valid {type_name(field.type)}",
                    hint="Move the file to a folder with another value",
                )
            self._values[column] = value

    def added(self, parse: Callable[[], TextBlock | TypedBlock]) -> TextBlock | TypedBlock:
        """A block of the file with these columns."""
        block = parse()
        if isinstance(block, TextBlock):
            return self._with_texts(block)
        rows = len(block.columns[0])
        columns = self._merged(block.columns, self._values, rows)
        if block.exact is not None:
            exact = block.exact
            rest = None if block.rest is None else self._with_texts(block.rest)
            return replace(block, columns=columns, exact=lambda rows: self._with_texts(exact(rows)), rest=rest)
        no_faults = np.zeros(rows, bool)
        checks = [*block.checks, *((column, "", no_faults) for column in self._values)]
        return replace(block, columns=columns, checks=checks, texts=self._merged(block.texts, self._texts, rows))

    def _with_texts(self, block: TextBlock) -> TextBlock:
        return replace(block, texts=self._merged(block.texts, self._texts, len(block.texts[0])))

    def _merged(self, columns: Sequence[Any], values: Mapping[str, Any], rows: int) -> list[Any]:
        """The columns of the table: those of the file, and the value of the path for each row."""
        of_file = iter(columns)
        return [pa.repeat(values[name][0], rows) if name in values else next(of_file) for name in self._schema.names]


def file_schema(schema: pa.Schema, source_format: SourceFormat) -> pa.Schema:
    """The columns of the table that the files have."""
    rescued = [RESCUED] if source_format.evolution == RESCUE else []
    return pa.schema([field for field in schema if field.name not in (*source_format.path_columns, *rescued)])
