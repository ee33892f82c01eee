"""The start of a file that is to be split over tasks: it decides whether the file can be split."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow.parquet as pq

from lakehouse_lib.errors import LandingError, SourceRefusedError
from lakehouse_lib.ingestion.file_part import FilePart
from lakehouse_lib.ingestion.landing import LandedFile
from lakehouse_lib.ingestion.sources.csv import header_names
from lakehouse_lib.ingestion.sources.json.reader import has_object
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.sources.stored_columns import refusals

#: The first part of a file has at least these bytes. The header of a file that is split is in them.
HEAD_BYTES = 1 << 20


@dataclass(frozen=True)
class FileHead:
    """The head of a file that can be split.

    Attributes:
        columns: the columns in the header, if the file is CSV.
        most_parts: the largest number of parts: that of row groups or stripes; None: the file has lines.
    """

    columns: tuple[str, ...] = ()
    most_parts: int | None = None


def read_head(source_file: LandedFile, source_format: SourceFormat) -> FileHead | None:
    """The head of a file; None: the file cannot be split.

    A file is not split if its head cannot be read, or does not contain the header or the first object. The task that
    reads the whole file refuses it, or finds the header or the object after the head.
    """
    try:
        if source_format.kind == "parquet":
            with refusals(source_file, "Parquet"), source_file.open() as source:
                return FileHead(most_parts=pq.ParquetFile(source).metadata.num_row_groups)
        if source_format.kind == "orc":
            from pyarrow import orc  # loads a library of its own

            with refusals(source_file, "ORC"), source_file.open() as source:
                return FileHead(most_parts=orc.ORCFile(source).nstripes)
        with source_file.open() as source:
            end = source.read(HEAD_BYTES).rfind(b"\n") + 1
        head = replace(source_file, part=FilePart(0, 0, end))
        if source_format.kind == "csv":
            names = header_names(head, source_format)
            return FileHead(tuple(names) if source_format.header else ())
        return FileHead() if has_object(head, source_format) else None
    except (LandingError, SourceRefusedError):
        return None
