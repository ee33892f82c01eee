"""The names of a table's columns in its files (PROTOCOL.md, Reader Requirements for Column Mapping).

Without mapping and in the mode ``name``, all files have the same names. In the mode ``id``, columns are found by the
field ids of each file, and names may differ: converted files keep their old names, and the former name of a renamed
column may now belong to another column. Spark matches field ids only if a setting of the session enables it. Even then
it pushes conditions down by name, and would skip row groups that match. In the mode ``id``, this module therefore reads
the footers, and groups the files that have the same names for the columns. Spark scans each group by these names.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa

from lakehouse_lib.engine.parquet.footer import read_footer
from lakehouse_lib.engine.spark.columns import Names
from lakehouse_lib.schema import Field
from lakehouse_lib.schema.column_mapping import field_id, physical_name
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.threads import map_in_threads

_THREADS = 8
_FIELD_ID = b"PARQUET:field_id"


def layouts(snapshot: Snapshot, files: pa.Table) -> Iterator[tuple[Names, pa.Table]]:
    """Groups of files with the same names of columns, and these names.

    Args:
        files: a files table with store paths.

    Raises:
        ObjectNotFoundError, StoreError: in the mode ``id``, a file is missing or is not a Parquet file.
    """
    mode = snapshot.layout.mapping
    if mode != "id":
        yield partial(physical_name, mode=mode), files
        return
    file_layouts = list(map_in_threads(partial(_layout, snapshot.store), files["path"].to_pylist(), _THREADS))
    groups: dict[frozenset[tuple[int, str]], int] = {}
    numbers = np.array([groups.setdefault(layout, len(groups)) for layout in file_layouts])
    for layout, number in groups.items():
        # Files written before the table had field ids use the physical names.
        names = partial(_name, dict(layout)) if layout else partial(physical_name, mode=mode)
        yield names, files.filter(pa.array(numbers == number))


def _name(layout: dict[int, str], field: Field) -> str:
    number = field_id(field)
    # A column that the file does not have gets a name that no file has.
    return layout.get(number, f"__lakehouse_no_{number}") if number is not None else physical_name(field, "id")


def _layout(store: ObjectStore, path: str) -> frozenset[tuple[int, str]]:
    return frozenset(_ids(read_footer(store, path).schema.to_arrow_schema()))


def _ids(schema: pa.Schema) -> Iterator[tuple[int, str]]:
    pending = [*schema]
    while pending:
        field = pending.pop()
        number = (field.metadata or {}).get(_FIELD_ID)
        if number is not None:
            yield int(number), field.name
        pending.extend(field.type.field(index) for index in range(field.type.num_fields))
