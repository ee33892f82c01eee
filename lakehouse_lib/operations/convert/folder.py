"""The Parquet files of a folder that becomes a table, and the partition values in the names of its folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import first_texts
from lakehouse_lib.log.file_names import LOG
from lakehouse_lib.operations.listing import list_objects
from lakehouse_lib.operations.upkeep.unneeded_files.plan import are_hidden
from lakehouse_lib.protocol import partition_values
from lakehouse_lib.store import ObjectStore

PartitionStrategy = Literal["hive", "directory"]

_SHOWN = 10
_PATHS_AT_ONCE = 1 << 12


class ConversionFolder(NamedTuple):
    """The Parquet files of a folder, sorted by path.

    Attributes:
        objects: the files (OBJECT_SCHEMA).
        folder_numbers: for each file, the index of its folder in ``folder_values``.
        folder_values: for each folder, the text of each partition value by column; None: null.
    """

    objects: pa.Table
    folder_numbers: pa.Array
    folder_values: list[dict[str, str | None]]

    def paths(self) -> Iterator[list[str]]:
        """The store paths of the files, as lists of at most 4,096 paths."""
        for start in range(0, len(self.objects), _PATHS_AT_ONCE):
            yield self.objects["path"].slice(start, _PATHS_AT_ONCE).to_pylist()


def open_folder(store: ObjectStore, columns: Sequence[str], strategy: PartitionStrategy) -> ConversionFolder:
    """The files below the root of a store. Hidden files (``_x``, ``.x``) and files in hidden folders are left out.

    Args:
        columns: the partition columns.

    Raises:
        InvalidArgumentError: the folder has no Parquet files; or the name of a subfolder does not fit the partition
            columns; or the folder has a file that is not named ``*.parquet``, a symbolic link, or a subfolder with a
            log. With these, a vacuum of the new table could delete files, or rows could be read twice.
    """
    table = store.root
    listing = list_objects(store)
    logs = pc.match_substring(listing.objects["path"], f"/{LOG}/")
    objects = listing.objects.filter(pc.invert(are_hidden(listing.objects["path"], columns))).sort_by("path")
    is_parquet = pc.match_substring_regex(objects["path"], r"(?i)\.parquet$")
    for problem, paths, hint in (
        ("tables in subfolders", _tables(listing.objects["path"].filter(logs)), "Convert each folder by itself"),
        ("symbolic links", pa.array(sorted(listing.links.ends or ()), pa.string()), "Put the files into the folder"),
        (
            "files that are not named *.parquet",
            objects["path"].filter(pc.invert(is_parquet)),
            "Move them out of the folder, because a full vacuum of the table would delete them",
        ),
    ):
        if len(paths):
            named = first_texts(paths.to_pylist(), _SHOWN)
            raise InvalidArgumentError(
                f"the folder has {problem}: {named}", table=table, hint=hint, code="DELTA_CANNOT_CONVERT"
            )
    if not len(objects):
        raise InvalidArgumentError(
            "the folder has 0 Parquet files; expected at least 1",
            table=table,
            hint="Check the location; use DeltaTable.create for a table without rows",
            code="DELTA_CANNOT_CONVERT",
        )
    folders = pc.replace_substring_regex(objects["path"], r"/?[^/]*$", "").combine_chunks().dictionary_encode()
    return ConversionFolder(
        objects,
        folders.indices,
        [_values(folder, columns, strategy, table) for folder in folders.dictionary.to_pylist()],
    )


def _tables(log_files: pa.Array) -> pa.Array:
    """The folders of the tables that have these log files."""
    return pc.unique(pc.replace_substring_regex(log_files, f"/{LOG}/.*$", ""))


def _values(folder: str, columns: Sequence[str], strategy: PartitionStrategy, table: str) -> dict[str, str | None]:
    """The text of each partition value in the path of a folder."""
    if strategy == "hive":
        values = partition_values.folders(folder)
        fits, problem = set(values) == set(columns), f"values for [{', '.join(values)}]"
    else:
        levels = folder.split("/") if folder and columns else []
        fits, problem = len(levels) == len(columns), f"{len(levels)} levels"
        values = {
            name: None if part == partition_values.HIVE_NULL else unquote(part)
            for name, part in zip(columns, levels, strict=False)
        }
    if not fits:
        raise InvalidArgumentError(
            f"the folder {folder or '.'!r} has {problem}; expected one for each of [{', '.join(columns)}]"
            if columns
            else f"the folder {folder!r} has partition values; expected no partition column",
            table=table,
            hint="Name the columns of all folders in partition_by, with their types",
            code="DELTA_CANNOT_CONVERT",
        )
    return values
