"""The stored objects below a table's root: all files of the table and of other programs, and symbolic links."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import as_array, int64s, strings
from lakehouse_lib.errors import StoreError
from lakehouse_lib.log.file_names import LOG
from lakehouse_lib.store import ObjectMeta, ObjectStore

#: Stored objects: one row per object, with its store path, its size in bytes and its modification time in ms since the
#: epoch. The time is null if the object is known only from the log.
OBJECT_SCHEMA = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("modified", pa.int64()),
    ]
)


@dataclass(frozen=True)
class SymbolicLinks:
    """The symbolic links below a table's root; only file systems have links.

    Reads and writes follow links. No verb deletes files behind a link.

    Attributes:
        root: the real path of the table's folder, without links.
        ends: the store path of each link -> the real path of its target; None: the table has no links.
    """

    root: str = "/"
    ends: Mapping[str, str] | None = None

    @staticmethod
    def of(store: ObjectStore, links: Mapping[str, str]) -> SymbolicLinks:
        """The links that a listing of the store contains.

        Raises:
            StoreError: a name is not UTF-8, so a log cannot refer to it.
        """
        _as_text([*links, *links.values()], store.root)
        return SymbolicLinks(os.path.realpath(store.root), links) if links else SymbolicLinks()

    def __bool__(self) -> bool:
        return bool(self.ends)

    def are_behind(self, paths: pa.Array | pa.ChunkedArray) -> pa.Array:
        """For each store path, whether it is a link or leads through a link."""
        return pc.is_in(paths, value_set=self._behind(paths)[0])

    def targets(self, paths: pa.Array | pa.ChunkedArray) -> pa.Array:
        """The files below the root that these paths reach through a link, as store paths without links."""
        return self._behind(paths)[1]

    def _behind(self, paths: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, pa.Array]:
        """The ``paths`` that are a link or lead through a link, and the files below the root that they reach."""
        no_paths = strings([])
        if not self.ends:
            return no_paths, no_paths
        paths = as_array(paths)
        # Resolve the folders and not the files, because a table has few folders.
        folders = pc.replace_substring_regex(paths, "/?[^/]*$", "").dictionary_encode()
        is_linked = pa.array(
            [self._resolved(folder) != folder for folder in folders.dictionary.to_pylist()], pa.bool_()
        )
        is_behind = pc.or_(is_linked.take(folders.indices), pc.is_in(paths, value_set=strings(list(self.ends))))
        linked_paths = paths.filter(is_behind)
        real_paths = [self._resolved(path) for path in linked_paths.to_pylist()]
        return linked_paths, strings([path for path in real_paths if not path.startswith("/")])

    def _resolved(self, path: str) -> str:
        """A store path without links; absolute if it leads out of the root."""
        for _ in range(len(self.ends or ()) + 1):  # links may form a cycle
            steps = path.split("/")
            for count in range(1, len(steps) + 1):
                end = (self.ends or {}).get("/".join(steps[:count]))
                if end is not None:
                    break
            else:
                return path
            path = "/".join([end, *steps[count:]]).removeprefix(f"{self.root.rstrip('/')}/")
        return path


@dataclass(frozen=True)
class Listing:
    """The stored objects below a table's root.

    Attributes:
        objects: every object outside the table's own log (OBJECT_SCHEMA), without links and objects behind links.
        log: the objects of the table's own log (OBJECT_SCHEMA).
        links: the symbolic links.
    """

    objects: pa.Table
    log: pa.Table
    links: SymbolicLinks


def list_objects(store: ObjectStore) -> Listing:
    """Every object below the table's root.

    Raises:
        StoreError: a name is not UTF-8, so a log cannot refer to it.
    """
    links: dict[str, str] = {}
    stored = pa.Table.from_batches(object_batches(store.walk(), store.root, links), OBJECT_SCHEMA)
    symbolic_links = SymbolicLinks.of(store, links)
    is_log = pc.starts_with(stored["path"], f"{LOG}/")
    return Listing(stored.filter(pc.invert(is_log)), stored.filter(is_log), symbolic_links)


def _is_link(meta: ObjectMeta, links: dict[str, str]) -> bool:
    """Whether an object is a link; a link is added to ``links``."""
    if meta.link:
        links[meta.path] = meta.link
    return bool(meta.link)


def object_batches(
    metas: Iterable[ObjectMeta], table: str, links: dict[str, str], rows: int = 65_536
) -> Iterator[pa.RecordBatch]:
    """Stored objects as batches of OBJECT_SCHEMA.

    Args:
        table: the table's location, for errors.
        links: symbolic links are left out, and added to this dictionary.
        rows: the largest number of rows of a batch.

    Raises:
        StoreError: a name is not UTF-8, so a log cannot refer to it.
    """
    objects = (meta for meta in metas if not _is_link(meta, links))
    while chunk := list(islice(objects, rows)):
        paths = _as_text([meta.path for meta in chunk], table)
        yield pa.record_batch(
            [
                paths,
                int64s([meta.size for meta in chunk]),
                int64s([meta.modified for meta in chunk]),
            ],
            schema=OBJECT_SCHEMA,
        )


def _as_text(paths: list[str], table: str) -> pa.Array:
    try:
        return strings(paths)
    except UnicodeEncodeError as error:
        raise StoreError(
            f"the file name {error.object!r} is not UTF-8", table=table, hint="Rename or delete the file"
        ) from error
