"""The plan of a vacuum: decides which stored objects a table no longer needs. The functions read nothing.

A file is kept if a version that is kept refers to it, or if its tombstone is younger than the retention. A file without
a log entry is kept while the file itself is younger than the retention, because it may belong to a running writer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.sorted_search import count_below
from lakehouse_lib.arrow.values import as_array, literal, strings
from lakehouse_lib.engine.spark.write import WRITE_KEY
from lakehouse_lib.log.file_names import LOG
from lakehouse_lib.log.retention.tombstones import are_expired
from lakehouse_lib.protocol import deletion_vector, file_paths
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.store.uris import SCHEME


@dataclass(frozen=True)
class FileNeeds:
    """Which files a table needs, by store path.

    Attributes:
        needed: the paths of files that are kept.
        expired: the paths of files that were removed longer ago than the retention.
        change_files: the paths of change files of old commits; None: every old file without a log entry is unneeded.
        names: the file names of needed paths that lead out of the table's folder. Such a path may lead back into the
            folder by another name, so files with these names are kept.
        cutoff: ms since the epoch; see ``file_needs``.
        partition_columns: physical names of the partition columns. Their folders contain data even if the name starts
            with ``_`` or ``.``.
    """

    store: ObjectStore
    needed: pa.Array
    expired: pa.Array
    change_files: pa.Array | None
    names: pa.Array
    cutoff: int
    partition_columns: Sequence[str]

    def have_folders(self) -> bool:
        """Whether a needed or an expired file is in a folder."""
        return any(pc.any(pc.match_substring(paths, "/")).as_py() for paths in (self.needed, self.expired))

    def visible(self, folders: Sequence[str]) -> list[str]:
        """The folders among these first-level folders that are not hidden, so that their files may be unneeded."""
        inside = strings([f"{folder}/file" for folder in folders])
        hidden = _hidden(inside, self.partition_columns).to_pylist()
        return [folder for folder, is_hidden in zip(folders, hidden, strict=True) if not is_hidden]

    def by_folder(self) -> FileNeeds:
        """The needs with sorted paths, for ``below``."""
        return replace(self, needed=_sorted(self.needed), expired=_sorted(self.expired))

    def below(self, folder: str) -> FileNeeds:
        """The needs of the files below a folder. The paths must be sorted (``by_folder``)."""
        return replace(self, needed=_below(self.needed, folder), expired=_below(self.expired, folder))

    def unneeded(self, objects: pa.Table) -> pa.Table:
        """The objects (OBJECT_SCHEMA) that are not needed, and the checksums of all files that are not in ``needed``.

        The result may have objects of another table or of an Iceberg table in the same folder, because only a complete
        listing shows where such tables are (``FolderFacts``).
        """
        paths = objects["path"]
        is_old = pc.less(objects["modified"], literal(self.cutoff, pa.int64()))
        is_old = pc.fill_null(is_old, literal(True, pa.bool_()))  # known from the log, whose entry has expired
        is_unneeded = pc.is_in(paths, value_set=self.expired)
        if self.change_files is None:
            is_unneeded = pc.or_(is_unneeded, is_old)
        else:
            is_unneeded = pc.or_(is_unneeded, pc.and_(is_old, pc.is_in(paths, value_set=self.change_files)))
        objects = objects.filter(pc.or_(is_unneeded, _are_checksums(paths)))
        objects = objects.filter(pc.invert(are_in(_without_checksum(objects["path"]), self.needed)))
        objects = objects.filter(pc.invert(file_paths.are_absolute(objects["path"], self.store)))  # outside the table
        paths = objects["path"]
        is_kept = pc.or_(_hidden(paths, self.partition_columns), pc.is_in(_file_names(paths), value_set=self.names))
        return objects.filter(pc.or_(pc.invert(is_kept), _are_checksums(paths)))


@dataclass
class FolderFacts:
    """The facts about a folder that a listing shows.

    Attributes:
        nested: the folders of other tables: they contain a ``_delta_log``.
        iceberg: the folders with Iceberg's metadata, each with a slash at the end.
        folders: the folders that contain an object.
        links: the store path of each symbolic link -> the real path of its target.
    """

    nested: set[str] = field(default_factory=set)
    iceberg: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    links: dict[str, str] = field(default_factory=dict)

    def add(self, objects: pa.Table) -> None:
        """Add the facts that these objects (OBJECT_SCHEMA) show."""
        paths = objects["path"]
        self.nested.update(nested_tables(paths))
        self.iceberg.update(iceberg_folders(paths))
        self.folders.update(pc.unique(pc.replace_substring_regex(paths, "[^/]*$", "")).to_pylist())

    def own(self, objects: pa.Table, link_targets: pa.Array) -> pa.Table:
        """The objects that do not belong to another table, and that are not the target of a link to a needed file."""
        for root in self.nested:
            objects = objects.filter(pc.invert(pc.starts_with(objects["path"], root + "/")))
        for folder in self.iceberg:
            objects = objects.filter(pc.invert(pc.starts_with(objects["path"], folder)))
        return objects.filter(pc.invert(pc.is_in(objects["path"], value_set=link_targets)))


def file_needs(
    files: pa.Table,
    tombstones: pa.Table,
    cutoff: int,
    *,
    store: ObjectStore,
    change_files: pa.Array | None = None,
    kept_paths: pa.ChunkedArray | None = None,
    partition_columns: Sequence[str] = (),
) -> FileNeeds:
    """Which files a table needs. Reads nothing.

    Args:
        files: the files of the latest version and of other versions that are kept (FILE_SCHEMA).
        tombstones: the remove actions of the log (TOMBSTONE_SCHEMA); a remove action without a time counts as expired.
        cutoff: ms since the epoch; an object is unneeded if it was removed at or before the cutoff, or if it has no
            entry in the log and was written before the cutoff.
        store: the store of the table, which gives paths of the log their canonical form.
        change_files: store paths of the change files of old commits; None: objects without an entry in the log are
            unneeded, too.
        kept_paths: store paths of files that clones and pins keep; None: no file.
        partition_columns: physical names of the partition columns.
    """
    expired = are_expired(tombstones, cutoff)
    recent = tombstones.filter(pc.invert(expired))
    kept_by_records = [] if kept_paths is None else kept_paths.chunks
    needed = pa.chunked_array(
        [*referenced_paths(files, store), *referenced_paths(recent, store), *kept_by_records], type=pa.string()
    )
    expired_paths = pa.chunked_array(referenced_paths(tombstones.filter(expired), store), type=pa.string())
    return FileNeeds(
        store,
        as_array(needed),
        as_array(expired_paths),
        change_files,
        _names_outside(needed),
        cutoff,
        tuple(partition_columns),
    )


def with_checksums(objects: pa.Table, checksums: pa.Table) -> pa.Table:
    """The objects, and the checksums of these objects. Hadoop's file system for disks writes such files."""
    paths = checksum_paths(objects["path"])
    return pa.concat_tables([objects, checksums.filter(pc.is_in(checksums["path"], value_set=paths))])


def checksum_paths(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """The paths of the checksums of objects."""
    return pc.replace_substring_regex(paths, r"^(.*/)?([^/]+)$", r"\1.\2.crc")


def are_in(paths: pa.Array | pa.ChunkedArray, many: pa.Array) -> pa.Array | pa.ChunkedArray:
    """Which paths are among ``many``. Faster than ``is_in``, because only the paths are hashed."""
    return pc.is_in(paths, value_set=many.filter(pc.is_in(many, value_set=paths)))


def split_checksums(objects: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The objects that are not checksums, and the checksums."""
    is_checksum = _are_checksums(objects["path"])
    return objects.filter(pc.invert(is_checksum)), objects.filter(is_checksum)


def referenced_paths(files: pa.Table, store: ObjectStore) -> list[pa.Array]:
    """Store paths of data files and of their deletion vectors."""
    return [
        file_paths.canonical(files["path"], store),
        deletion_vector.paths_of(store, files["deletionVector"]),
    ]


def shares_name(paths: pa.ChunkedArray, references: pa.ChunkedArray) -> pa.ChunkedArray:
    """Which store paths have the file name of a reference that leads out of the table.

    Such a reference may lead back into the table by another name of its folder (a link, a mount). File names are
    unique, so an equal name means the same file.
    """
    return pc.is_in(_file_names(paths), value_set=_names_outside(references))


def nested_tables(paths: pa.ChunkedArray) -> Iterable[str]:
    """The folders of other tables below the root: they contain a ``_delta_log``."""
    inside = paths.filter(pc.match_substring(paths, f"/{LOG}/"))
    roots: list[str] = pc.unique(pc.replace_substring_regex(inside, rf"/{LOG}/.*$", "")).to_pylist()
    return roots


def iceberg_folders(paths: pa.ChunkedArray) -> list[str]:
    """Folders with Iceberg's metadata of the same data files, each with a slash at the end.

    No Delta log refers to these objects, and without them Iceberg could no longer read the table.
    """
    described = paths.filter(pc.match_substring_regex(paths, r"(^|/)metadata/[^/]+\.metadata\.json(\.gz)?$"))
    folders: list[str] = pc.unique(pc.replace_substring_regex(described, "[^/]*$", "")).to_pylist()
    return folders


def _file_names(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.replace_substring_regex(paths, r"^.*/", "")


def are_hidden(paths: pa.ChunkedArray, partition_columns: Sequence[str]) -> pa.ChunkedArray:
    """Which paths have a component that starts with ``_`` or ``.`` and is not the folder of a partition."""
    names = "|".join(re.escape(name) + "=" for name in partition_columns if name[:1] in ("_", "."))
    if names:
        paths = pc.replace_substring_regex(paths, rf"(^|/)(?:{names})", r"\1column=")
    return pc.match_substring_regex(paths, r"(^|/)[_.]")


def _hidden(paths: pa.ChunkedArray, partition_columns: Sequence[str]) -> pa.ChunkedArray:
    """``are_hidden`` without the files of the change data feed, of indexes and of Spark writes.

    Every file in the folder of a Spark write counts as data, so a killed job's files in its ``_temporary`` are deleted.
    """
    paths = pc.replace_substring_regex(paths, r"(^|/)(?:_change_data|_delta_index)/", r"\1folder/")
    return pc.and_not(are_hidden(paths, partition_columns), pc.starts_with(paths, f"{WRITE_KEY}="))


def _names_outside(references: pa.ChunkedArray) -> pa.Array:
    """The file names of the references that lead out of the table."""
    outside = references.filter(pc.match_substring_regex(references, f"^/|^{SCHEME}:"))
    # Some references are decoded and some are not, so a name with a percent sign counts in both forms.
    names = pc.unique(_file_names(outside))
    escaped = names.filter(pc.match_substring(names, "%")).to_pylist()
    return pa.concat_arrays([names, strings([unquote(name) for name in escaped])])


def _are_checksums(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.match_substring_regex(paths, r"(^|/)\.[^/]+\.crc$")


def _without_checksum(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """The paths, and for checksums the paths of their files."""
    return pc.replace_substring_regex(paths, r"(^|/)\.([^/]+)\.crc$", r"\1\2")


def _sorted(paths: pa.Array) -> pa.Array:
    return paths.take(pc.sort_indices(paths))


def _below(paths: pa.Array, folder: str) -> pa.Array:
    """The paths, among sorted paths, that are below a folder."""
    start, end = count_below(paths, strings([f"{folder}/", f"{folder}0"]))  # "0" is the character after "/"
    return paths.slice(start, end - start)
