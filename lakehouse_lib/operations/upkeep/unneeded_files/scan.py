"""The unneeded files of a table, found by a listing.

The memory contains at most the paths that the table needs, 262,144 listed objects (or 16,384 for each of 16 threads),
and 8 MiB of the list of unneeded files for each of 17 folders. Longer lists are in temporary files on the local disk.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from tempfile import SpooledTemporaryFile
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.log.file_names import LOG
from lakehouse_lib.operations.listing import OBJECT_SCHEMA, SymbolicLinks, object_batches
from lakehouse_lib.operations.upkeep.unneeded_files.plan import FileNeeds, FolderFacts, split_checksums, with_checksums
from lakehouse_lib.store import ObjectMeta, ObjectStore
from lakehouse_lib.threads import map_in_threads

_THREADS = 16
_SPOOLED_BYTES = 8 << 20
_ROWS_OF_A_TABLE, _ROWS_OF_A_FOLDER = 262_144, 16_384
#: Each folder is listed separately if the folders have at least this many needed files on average. Otherwise the
#: requests for many small folders would take longer than one listing of the table.
_FILES_A_FOLDER = 500


@dataclass
class ScannedFolder:
    """The unneeded files of a folder that is listed completely.

    Attributes:
        needs: the files that the table needs.
        spool: the unneeded objects, as an Arrow stream in a temporary file.
        facts: the facts that the listing has shown.
        links: the symbolic links in the folder.
        checksums: the checksums that may belong to unneeded objects.
    """

    needs: FileNeeds
    spool: Any
    facts: FolderFacts = field(default_factory=FolderFacts)
    links: SymbolicLinks = field(default_factory=SymbolicLinks)
    checksums: pa.Table = field(default_factory=lambda: pa.Table.from_batches([], OBJECT_SCHEMA))

    def unneeded(self) -> Iterator[pa.Table]:
        """The objects to delete (OBJECT_SCHEMA), in tables of bounded size. This method can be called only once."""
        targets = self.links.targets(self.needs.needed)
        for objects in self.candidates():
            own = self.facts.own(objects, targets)
            own = own.filter(pc.invert(self.links.are_behind(own["path"])))
            yield with_checksums(own, self.checksums)
        self.spool.close()

    def candidates(self) -> Iterator[pa.Table]:
        """The objects of ``spool`` (OBJECT_SCHEMA). They may include objects of other tables, and behind links."""
        self.spool.seek(0)
        with pa.ipc.open_stream(pa.PythonFile(self.spool, "r")) as reader:
            for batch in reader:
                yield pa.Table.from_batches([batch])


def scan_table(
    store: ObjectStore, needs: FileNeeds, on_listed: Callable[[int], object] | None = None
) -> Iterator[ScannedFolder]:
    """The unneeded files of a table, folder by folder.

    If the store is remote and the first-level folders of the table have many files, these folders are listed in 16
    threads. In this case, hidden folders are not listed.

    Args:
        on_listed: called with the number of objects in each listed batch, from any thread.

    Raises:
        StoreError: a name is not UTF-8, so a log cannot refer to it.
    """
    folders = needs.visible(store.folders()) if store.is_remote and needs.have_folders() else []
    if len(folders) < 2 or len(needs.needed) < _FILES_A_FOLDER * len(folders):
        yield scan_objects(store, store.walk(), needs, _ROWS_OF_A_TABLE, on_listed)
        return
    by_folder = needs.by_folder()

    def scan(folder: str) -> ScannedFolder:
        if not folder:
            return scan_objects(store, store.list_from(""), by_folder, _ROWS_OF_A_FOLDER, on_listed)
        return scan_objects(store, store.walk(folder), by_folder.below(folder), _ROWS_OF_A_FOLDER, on_listed)

    yield from map_in_threads(scan, ["", *folders], _THREADS, ahead=_THREADS)


def scan_objects(
    store: ObjectStore,
    objects: Iterable[ObjectMeta],
    needs: FileNeeds,
    rows: int,
    on_listed: Callable[[int], object] | None = None,
) -> ScannedFolder:
    """The unneeded files among the objects of a complete listing.

    Args:
        rows: the least number of rows that are compared with the needed paths at once. Each comparison reads all
            needed paths.
        on_listed: see ``scan_table``.
    """
    links: dict[str, str] = {}
    batches = object_batches(objects, store.root, links, _ROWS_OF_A_FOLDER)
    if on_listed is not None:
        batches = _observed(batches, on_listed)
    scanned = scan_batches(_combined(batches, rows), needs)
    scanned.links = SymbolicLinks.of(store, links)
    return scanned


def scan_batches(batches: Iterable[pa.RecordBatch], needs: FileNeeds) -> ScannedFolder:
    """The unneeded files among stored objects, which are batches of OBJECT_SCHEMA."""
    scanned = ScannedFolder(needs, SpooledTemporaryFile(_SPOOLED_BYTES))  # noqa: SIM115 - closed by the next line
    weakref.finalize(scanned, scanned.spool.close)
    checksums = [scanned.checksums]
    with pa.ipc.new_stream(pa.PythonFile(scanned.spool, "w"), OBJECT_SCHEMA) as sink:
        for batch in batches:
            objects = pa.Table.from_batches([batch])
            objects = objects.filter(pc.invert(pc.starts_with(objects["path"], f"{LOG}/")))
            scanned.facts.add(objects)
            data, its_checksums = split_checksums(needs.unneeded(objects))
            sink.write_table(data)
            checksums.append(its_checksums)
    scanned.checksums = pa.concat_tables(checksums)
    return scanned


def _observed(batches: Iterable[pa.RecordBatch], on_listed: Callable[[int], object]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        on_listed(len(batch))
        yield batch


def _combined(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Batches of at least this number of rows, except the last one."""
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(map(len, pending)) >= rows:
            yield pa.concat_batches(pending)
            pending = []
    if pending:
        yield pa.concat_batches(pending)
