"""The unneeded files of a table by a list that another program has made, such as the inventory of a bucket."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import literal, strings
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.operations.listing import OBJECT_SCHEMA, SymbolicLinks, object_batches
from lakehouse_lib.operations.upkeep.unneeded_files.inventory_files import bucket_of, inventory_files, refusal
from lakehouse_lib.operations.upkeep.unneeded_files.plan import FileNeeds, iceberg_folders
from lakehouse_lib.operations.upkeep.unneeded_files.removed_objects import folders_of, links_to, nested_tables
from lakehouse_lib.operations.upkeep.unneeded_files.scan import ScannedFolder, scan_batches
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.concurrent import map_requests
from lakehouse_lib.store.uris import SCHEME, scheme_prefix

#: An inventory: the ``manifest.json`` of a bucket's inventory, a Parquet file or a CSV file with a header, several of
#: them, or an Arrow reader.
Inventory: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | pa.RecordBatchReader

_PATHS, _KEYS = ("path",), ("key",)
_SIZES = ("size", "length")
_TIMES = ("last_modified_date", "lastmodifieddate", "last_modified", "modificationtime", "modification_time")
_FLAGS = (
    ("isdir", False),
    ("is_latest", True),
    ("islatest", True),
    ("is_delete_marker", False),
    ("isdeletemarker", False),
)
_UTC = pa.timestamp("us", "UTC")


def inventory_objects(inventory: Inventory, needs: FileNeeds) -> ScannedFolder:
    """The unneeded files of a table among the objects of an inventory.

    Objects outside the table's folder are ignored. One request is made for each unneeded file, because it may have been
    deleted or written again, and one for each folder of such files, because the inventory may lack the log of another
    table.

    Raises:
        InvalidArgumentError: a column is missing, or the inventory cannot be read.
    """
    store = needs.store
    try:
        scanned = scan_batches(_objects(inventory, store), needs)
    except (pa.ArrowException, OSError) as error:
        raise refusal(f"the inventory cannot be read: {error}", store) from error
    stored = scan_batches(_stored(scanned, store), needs)
    folders: set[str] = set()
    links: dict[str, str] = {}
    for objects in stored.candidates():
        folders.update(folders_of(objects["path"]))
        if not store.is_remote:
            links.update(links_to(objects["path"], needs.needed, store.root))
    stored.links = SymbolicLinks.of(store, links)
    stored.facts.nested.update(scanned.facts.nested, nested_tables(folders, store))
    stored.facts.iceberg.update(scanned.facts.iceberg)
    for folder in folders:
        if folder.rpartition("/")[2] == "metadata":
            listed = strings([meta.path for meta in store.list_from(folder)])
            stored.facts.iceberg.update(iceberg_folders(pa.chunked_array([listed])))
    return stored


def _stored(scanned: ScannedFolder, store: ObjectStore) -> Iterator[pa.RecordBatch]:
    """The unneeded files and checksums that still exist, with their present sizes and times."""
    for objects in chain(scanned.candidates(), [scanned.checksums]):
        metas = (meta for meta in map_requests(store, store.head, objects["path"].to_pylist()) if meta is not None)
        yield from object_batches(metas, store.root, {})


def _objects(inventory: Inventory, store: ObjectStore) -> Iterator[pa.RecordBatch]:
    """The objects of an inventory that are in the table's folder (OBJECT_SCHEMA)."""
    if isinstance(inventory, pa.RecordBatchReader):
        for batch in inventory:
            yield from _own(batch, store, is_encoded=False)
        return
    locations = [inventory] if isinstance(inventory, str | os.PathLike) else inventory
    for file in inventory_files(locations, store):
        for batch in file.batches():
            yield from _own(batch, store, is_encoded=file.is_csv)


def _own(batch: pa.RecordBatch, store: ObjectStore, *, is_encoded: bool) -> Iterator[pa.RecordBatch]:
    """The objects of a batch that are in the table's folder.

    Args:
        is_encoded: keys are percent-encoded, as in the CSV files of a bucket's inventory.
    """
    columns = {name.lower(): column for name, column in zip(batch.schema.names, batch.columns, strict=True)}
    key = _column(columns, _KEYS)
    paths = key if key is not None else _column(columns, _PATHS)
    sizes, times = _column(columns, _SIZES), _column(columns, _TIMES)
    if paths is None or sizes is None or times is None:
        raise refusal(
            f"the columns of the inventory are {excerpt(', '.join(batch.schema.names))}; "
            "expected key or path, size, and last_modified_date",
            store,
        )
    paths, bucket = pc.cast(paths, pa.string()), bucket_of(store)
    if key is not None:
        if is_encoded:
            paths = file_paths.unquote_all(pc.replace_substring(paths, "+", " "))
        paths = _joined(literal(f"{scheme_prefix(store.root)}/{bucket}/" if bucket else "", pa.string()), paths)
    relative, is_own = _relative(paths, store)
    for name, value in _FLAGS:
        if name in columns:
            text = pc.utf8_lower(pc.cast(columns[name], pa.string()))
            flags = pc.equal(text, literal(str(value).lower(), pa.string()))
            is_own = pc.and_(is_own, pc.fill_null(flags, literal(True, pa.bool_())))
    if bucket and "bucket" in columns:
        is_own = pc.and_(is_own, pc.equal(columns["bucket"], literal(bucket, pa.string())))
    table = pa.Table.from_arrays(
        [relative, pc.fill_null(pc.cast(sizes, pa.int64()), literal(0, pa.int64())), _milliseconds(times)],
        names=OBJECT_SCHEMA.names,
    ).filter(is_own)
    yield from table.filter(table["modified"].is_valid()).cast(OBJECT_SCHEMA).to_batches()


def _relative(paths: pa.Array, store: ObjectStore) -> tuple[pa.Array, pa.Array]:
    """Store paths, and a mask of the paths that are in the table's folder."""
    schemes = "|".join(map(re.escape, store.schemes))
    paths = pc.replace_substring_regex(paths, rf"^(?i:{schemes}):/+", f"{scheme_prefix(store.root)}/")
    root = f"{store.root.rstrip('/')}/"
    is_inside = pc.starts_with(paths, root)
    relative = pc.if_else(is_inside, pc.utf8_slice_codeunits(paths, len(root)), paths)
    is_odd = pc.match_substring_regex(relative, rf"^/|^{SCHEME}://|(^|/)\.{{0,2}}(/|$)|\x00")
    return relative, pc.fill_null(pc.invert(is_odd), literal(False, pa.bool_()))


def _milliseconds(times: pa.Array) -> pa.Array:
    """Times as ms since the epoch. A time without a zone is in UTC, and a whole number is in ms."""
    if pa.types.is_integer(times.type):
        return pc.cast(times, pa.int64())
    if pa.types.is_string(times.type) or pa.types.is_large_string(times.type):
        text = pc.replace_substring_regex(pc.cast(times, pa.string()), r"Z$", "+00:00")
        has_zone = pc.match_substring_regex(text, r"[+-]\d\d:?\d\d$")
        times = pc.cast(pc.if_else(has_zone, text, _joined(text, literal("+00:00", pa.string()))), _UTC)
    return pc.cast(pc.cast(times, pa.timestamp("ms", getattr(times.type, "tz", None)), safe=False), pa.int64())


def _joined(first: pa.Array | pa.Scalar, second: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(first, second, literal("", pa.string()))


def _column(columns: dict[str, Any], names: Sequence[str]) -> Any:
    return next((columns[name] for name in names if name in columns), None)
