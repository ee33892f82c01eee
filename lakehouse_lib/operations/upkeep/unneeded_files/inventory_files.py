"""The files of an inventory: the files that the caller names, and the files that a ``manifest.json`` names.

A bucket publishes its inventory once a day or a week: ``PREFIX/BUCKET/CONFIGURATION/TIME/manifest.json`` names the
files that list the objects. These files are in ``PREFIX/BUCKET/CONFIGURATION/data``.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from lakehouse_lib.errors import InvalidArgumentError, ObjectNotFoundError
from lakehouse_lib.json_text import excerpt, parse_json
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.uris import scheme_prefix

_MANIFEST = ".json"
_ROWS = 65_536


@dataclass(frozen=True)
class InventoryFile:
    """A file with a list of stored objects.

    Attributes:
        store: the store that has the file; None: the disk of this machine.
        path: in the store, or on the disk.
        is_csv: a CSV file; otherwise a Parquet file.
        columns: the columns of a CSV file without a header; None: the file has a header.
    """

    store: ObjectStore | None
    path: str
    is_csv: bool
    columns: tuple[str, ...] | None = None

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows of the file, as they are stored."""
        import pyarrow.dataset as ds

        from lakehouse_lib.engine.arrow.store_filesystem import StoreFileSystem

        filesystem = None if self.store is None else StoreFileSystem.of(self.store)
        kind = self._csv_format() if self.is_csv else "parquet"
        yield from ds.dataset(self.path, format=kind, filesystem=filesystem).to_batches(batch_size=_ROWS)

    def _csv_format(self) -> Any:
        import pyarrow.dataset as ds
        from pyarrow import csv

        if self.columns is None:
            return ds.CsvFileFormat()
        # All values are text, because a bucket writes all values in quotes. An empty value is null.
        return ds.CsvFileFormat(
            read_options=csv.ReadOptions(column_names=self.columns),
            convert_options=csv.ConvertOptions(
                column_types=dict.fromkeys(self.columns, pa.string()), strings_can_be_null=True, null_values=[""]
            ),
        )


def inventory_files(locations: Sequence[str | os.PathLike[str]], table: ObjectStore) -> list[InventoryFile]:
    """The files of an inventory. A manifest is replaced by the files that it names.

    Args:
        locations: paths on the disk of this machine, or locations in the table's kind of store, which are opened with
            the options of the table.

    Raises:
        InvalidArgumentError: a location has an unknown kind of file, or is of another kind of store; a manifest cannot
            be read, or is of another bucket than the table.
    """
    files: list[InventoryFile] = []
    for location in locations:
        store, path = _place(os.fspath(location), table)
        if path.endswith(_MANIFEST):
            files += _manifest_files(store, path, table)
        else:
            files.append(InventoryFile(store, path, _is_csv(path, table)))
    return files


def bucket_of(store: ObjectStore) -> str:
    """The bucket of a store; "" for a disk."""
    prefix = scheme_prefix(store.root)
    return store.root.removeprefix(prefix).split("/")[1] if prefix else ""


def refusal(problem: str, table: ObjectStore) -> InvalidArgumentError:
    """The error about an inventory that cannot be used."""
    return InvalidArgumentError(
        problem,
        table=table.root,
        hint="Pass the manifest.json of a bucket's inventory, Parquet files, CSV files with a header, or an Arrow "
        "RecordBatchReader",
        code="DELTA_INVALID_INVENTORY",
    )


def _place(location: str, table: ObjectStore) -> tuple[ObjectStore | None, str]:
    """The store and the path of a location. A remote location is opened with the options of the table."""
    scheme, separator, rest = location.partition("://")
    if not separator:
        return None, location
    if scheme.lower() == "file":
        return None, unquote(urlsplit(location).path)
    if not table.is_remote or scheme.lower() not in table.schemes:
        raise refusal(
            f"the inventory is in {excerpt(f'{scheme}://')}; expected a path on a disk, or a location in the table's "
            "kind of store",
            table,
        )
    folder, _, name = rest.rpartition("/")
    return table.open_location(f"{scheme_prefix(table.root)}/{folder}"), name


def _manifest_files(store: ObjectStore | None, path: str, table: ObjectStore) -> list[InventoryFile]:
    """The files that a manifest names."""
    manifest = _manifest(store, path, table)
    kind, bucket = manifest["fileFormat"], bucket_of(table)
    if kind not in ("CSV", "Parquet"):
        raise refusal(f"the inventory's fileFormat is {excerpt(kind)}; expected CSV or Parquet", table)
    if bucket and manifest["sourceBucket"] != bucket:
        raise refusal(f"the inventory is of the bucket {excerpt(manifest['sourceBucket'])}; expected {bucket}", table)
    columns = tuple(name.strip() for name in manifest["fileSchema"].split(",")) if kind == "CSV" else None
    files = []
    for entry in manifest["files"]:
        key = entry["key"]
        if store is None:
            files.append(InventoryFile(None, _copy_of(key, path), kind == "CSV", columns))
        else:
            prefix = scheme_prefix(store.root)
            place = store.open_location(f"{prefix}/{bucket_of(store)}/{posixpath.dirname(key)}")
            files.append(InventoryFile(place, posixpath.basename(key), kind == "CSV", columns))
    return files


def _manifest(store: ObjectStore | None, path: str, table: ObjectStore) -> dict[str, Any]:
    """The content of a manifest, with values of the right types."""
    try:
        if store is None:
            data = Path(path).read_bytes()
        else:
            data = store.read(path)
    except (OSError, ObjectNotFoundError) as error:
        raise refusal(f"the manifest {excerpt(path)} of the inventory cannot be read: {error}", table) from error
    try:
        manifest: dict[str, Any] = parse_json(data)
        texts = [manifest[name] for name in ("sourceBucket", "fileFormat", "fileSchema")]
        valid = all(isinstance(text, str) for text in [*texts, *(entry["key"] for entry in manifest["files"])])
    except (ValueError, TypeError, KeyError):
        valid = False
    if not valid:
        raise refusal(
            f"the manifest {excerpt(path)} of the inventory is not valid; expected sourceBucket, fileFormat, "
            "fileSchema, and files with keys",
            table,
        )
    return manifest


def _copy_of(key: str, manifest: str) -> str:
    """The path of a file in a copy of the inventory's folder; a file may also be beside the manifest."""
    folder, name = Path(manifest).absolute().parent, posixpath.basename(key)
    beside = folder / name
    return str(beside if beside.exists() else folder.parent / "data" / name)


def _is_csv(path: str, table: ObjectStore) -> bool:
    is_csv = path.endswith((".csv", ".csv.gz"))
    if not is_csv and not path.endswith(".parquet"):
        raise refusal(f"the inventory is {excerpt(path)}; expected manifest.json, .parquet, .csv or .csv.gz", table)
    return is_csv
