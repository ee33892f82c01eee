"""The interface of an object store: the requests that the log and the verbs need.

The correctness of commits depends only on ``put_if_absent``. ``put_if_match`` prevents a slow writer from replacing
``_last_checkpoint`` by the hint of an older checkpoint.

Every ``path`` is relative to the root, separated by ``/`` and decoded (no percent-encoding). Methods that only read an
object (``read``, ``read_range``, ``head``, ``open_input``) also take an absolute path below ``allowed_roots``: ``/x``
on a disk, ``s3://bucket/x`` in a store whose locations have a scheme.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # sensors import this module, and importing pyarrow takes long
    import pyarrow as pa


@dataclass(frozen=True)
class ObjectMeta:
    """A stored object.

    Attributes:
        size: in bytes.
        modified: ms since the epoch.
        tag: a text that changes if the content of the object changes, as far as the store can detect it (an ETag, or
            inode and time); "" if the store has only the size and the time.
        link: the real path of a symbolic link's target, set by ``walk`` only; "" for other objects.
        names: the number of names (hard links) that the file system has for the object.
    """

    path: str
    size: int
    modified: int
    tag: str = field(default="", compare=False)
    link: str = field(default="", compare=False)
    names: int = field(default=1, compare=False)


@dataclass(frozen=True)
class PathLimits:
    """The limits of data file paths in a store, in bytes of UTF-8.

    Attributes:
        path: the length of the longest path, with the root.
        taken: bytes of ``path`` that partition folders cannot use: the root, a data file's name, temporary folders.
        name: the length of the longest name of a single folder; None: only whole paths are limited.
        noun: the store's word for a path.
    """

    path: int
    taken: int
    name: int | None = None
    noun: str = "path"


@dataclass(frozen=True)
class SparkAccess:
    """Access of Spark's own readers and writers to a location of a store, through a Hadoop file system.

    Attributes:
        uri: the location in Spark's spelling, without percent-encoding.
        properties: Hadoop's properties for this location, which may hold secrets. They are passed with each scan, and
            never to a session, plan or log.
        package: the Maven package of the file system, without its version, which must be the version of Spark's Hadoop;
            "": Hadoop itself contains the file system.
        renames: whether renames are cheap. Spark's own writer renames each file at the end. If renames are expensive,
            Spark's Python workers write data files through the store.
    """

    uri: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    package: str = ""
    renames: bool = False


class ObjectStore(Protocol):
    """The folder of a table in a store. Implementations are picklable, because tasks on a cluster contain them.

    Every method raises ``StoreError`` if the store itself fails.
    """

    @property
    def root(self) -> str:
        """The table's location, canonical and absolute. Error messages show it."""

    @property
    def allowed_roots(self) -> tuple[str, ...]:
        """Other folders, absolute, whose files the log may refer to. Nothing is written or deleted there."""

    @property
    def schemes(self) -> tuple[str, ...]:
        """The schemes, in lower case, that an absolute path in the log may have in this kind of store.

        The first one is the scheme of ``root``, or ``file`` if ``root`` is a path.
        """

    @property
    def limits(self) -> PathLimits:
        """The limits of data file paths."""

    @property
    def is_remote(self) -> bool:
        """Whether requests use a network, so that concurrent requests are faster."""

    @property
    def list_calls(self) -> int:
        """How many requests that list objects or folders this store has made."""

    def open_location(self, location: str) -> ObjectStore:
        """The store of another location of this kind of store, with the same options, but without ``allowed_roots``.

        Args:
            location: a location as in ``root``.
        """

    def read(self, path: str) -> bytes:
        """The bytes of an object; ``ObjectNotFoundError`` if it does not exist."""

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the object atomically: a reader sees the old bytes or the new bytes."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the object, complete and durable, if it does not exist. True if this call created it.

        The local store links a complete file to the name; ``os.link`` fails if the name exists. S3 puts with
        ``If-None-Match: *``. S3 with ``single_writer`` asks whether the object exists and then puts it, because no
        other process writes.

        If the answer is lost, the store repeats the put. Then it may return False although the first put has created
        the object, so the caller has to read the object. ``StoreRefusedError``: the object was certainly not stored.
        """

    def put_if_match(self, path: str, data: bytes, expected: bytes | None) -> bool:
        """Replace the object if its bytes are ``expected`` (None: if it does not exist). True if it was replaced.

        If the answer is lost, the store repeats the put. Then it may return False although the first put has replaced
        the object, so the caller has to read the object.
        """

    def list_from(self, folder: str, start: str = "") -> Iterator[ObjectMeta]:
        """The objects directly in ``folder`` whose names are not before ``start``, sorted by name.

        Empty if the folder does not exist.
        """

    def folders(self, folder: str = "") -> list[str]:
        """The names of the folders directly in ``folder`` ("": the root), sorted; empty if it does not exist.

        Symbolic links are left out, except one named ``_delta_log``. An object store has a folder if it has an object
        below it.
        """

    def walk(self, folder: str = "", after: str = "") -> Iterator[ObjectMeta]:
        """Every object below ``folder`` ("": the root) whose path sorts after ``after``; empty if it does not exist.

        A remote store (``is_remote``) lists the paths in the order of their UTF-8 bytes; other stores do not sort.
        A symbolic link is listed as itself (``ObjectMeta.link``) and not followed, except one named ``_delta_log``.
        An S3 key that is not a valid path (with a second slash after the root, or with ``..``) is listed by its
        location, which no method accepts.
        """

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete these objects; objects that do not exist are not an error."""

    def head(self, path: str) -> ObjectMeta | None:
        """The size, time and tag of an object; None if it does not exist."""

    def sync(self, paths: Iterable[str]) -> None:
        """Make objects durable that were written without ``put`` (data files), before a commit refers to them.

        Files of ``allowed_roots`` are skipped, because nothing was written there.
        """

    def read_range(self, path: str, start: int, length: int, tag: str) -> bytes | None:
        """Bytes of an object, fewer at its end; None if the object does not exist, or has another tag than ``tag``.

        The store checks the tag with the same request, so that ranges of two contents are never mixed.
        ``StoreRefusedError``: the store refuses to read the object, and will refuse it again.
        """

    def open_input(self, path: str) -> pa.NativeFile:
        """Open an object for random access, for Parquet; ``ObjectNotFoundError`` if it does not exist."""

    def open_output(self, path: str) -> pa.NativeFile:
        """Open an object for writing. Data files have unique names; an existing object is replaced."""

    def explain(self, error: OSError) -> str | None:
        """A hint for an error that a file of ``open_input`` or ``open_output`` raised; None for an unknown error."""

    def spark_access(self, location: str) -> SparkAccess:
        """The access of Spark to ``root`` or one of ``allowed_roots``."""

    def make_root(self) -> None:
        """Create the table's folder for another program that writes there. A store without folders does nothing.

        ``StoreError``: a file has the name of the folder, or the permission is missing.
        """
