"""The object store seam: the few verbs the log and the maintenance verbs need.

``put_if_absent`` is the only primitive the log's correctness rests on; ``put_if_match`` keeps ``_last_checkpoint`` from
moving backwards. Every ``path`` is relative to the root, separated by ``/`` and decoded (no percent-encoding). Verbs
that only read an object (``read``, ``head``, ``open_input``) take an absolute one, too, below ``allowed_roots``: ``/x``
on a disk, ``s3://bucket/x`` in a store whose locations have a scheme.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # the sensor polls through this module, and pyarrow takes its time to import
    import pyarrow as pa


@dataclass(frozen=True)
class ObjectMeta:
    """One stored object: ``size`` in bytes, ``modified`` in ms since the epoch.

    Attributes:
        tag: different for any other content under the same path, as far as the store can tell; "" where the size and
            the time are all there is.
        link: the real path that a symbolic link leads to; only ``walk`` names links. "" of anything else.
        names: how many names the file system has for the object: more than 1 are hard links.
    """

    path: str
    size: int
    modified: int
    tag: str = field(default="", compare=False)
    link: str = field(default="", compare=False)
    names: int = field(default=1, compare=False)


@dataclass(frozen=True)
class PathLimits:
    """How long the paths of data files may be in a store, in bytes of UTF-8.

    Attributes:
        path: of a whole path, the root included.
        taken: what of it the root takes, and what a writer puts around and after the folders of a partition.
        name: of a single folder; None: only whole paths are limited.
        noun: what the store calls a path.
    """

    path: int
    taken: int
    name: int | None = None
    noun: str = "path"


@dataclass(frozen=True)
class SparkAccess:
    """How Spark's own readers and writers reach a location of a store: by one of Hadoop's file systems.

    Attributes:
        uri: the location as Spark spells it, nothing percent-encoded.
        properties: Hadoop's properties for this location, which may hold secrets. They go with each scan, and into no
            session, plan or log.
        package: the Maven package of the file system, without its version, which is Hadoop's; "": Hadoop has it.
        renames: whether a rename there is cheap. Spark's own writer ends with one of every file; where it is not,
            Spark's Python workers write data files by the store itself.
    """

    uri: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    package: str = ""
    renames: bool = False


class ObjectStore(Protocol):
    """A table's folder in some store. Implementations are picklable, so that tasks carry one to the cluster.

    Every verb raises ``StoreError`` when the store itself fails.
    """

    @property
    def root(self) -> str:
        """The table's location, canonical and absolute, as errors show it."""

    @property
    def allowed_roots(self) -> tuple[str, ...]:
        """Other folders, absolute, whose files the log may refer to. Files there are read, never written or deleted."""

    @property
    def schemes(self) -> tuple[str, ...]:
        """How a log may begin an absolute path of this kind of store, in lower case.

        The first one is that of ``root``, or ``file`` where ``root`` is a path.
        """

    @property
    def limits(self) -> PathLimits:
        """How long the paths of data files may be."""

    @property
    def is_remote(self) -> bool:
        """Whether a request waits for a network, so that several at a time are worth their threads."""

    def read(self, path: str) -> bytes:
        """The whole object; ``ObjectNotFoundError`` when there is none."""

    def put(self, path: str, data: bytes) -> None:
        """Create or replace the object in one step: a reader sees the old bytes or the new ones."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the object, complete and durable, unless there is one: True when it is ours, False when it was there.

        A store that tried again after an answer got lost may say False of an object that is ours: read it.
        ``StoreRefusedError``: it certainly was not stored.
        """

    def put_if_match(self, path: str, data: bytes, expected: bytes | None) -> bool:
        """Replace the object if it still holds ``expected`` (None: if it does not exist); False when it changed."""

    def list_from(self, folder: str, start: str = "") -> Iterator[ObjectMeta]:
        """Objects directly in ``folder`` whose name is ``start`` or sorts after it, by name; none if it is missing."""

    def walk(self, folder: str = "") -> Iterator[ObjectMeta]:
        """Every object below ``folder`` (the root), in no order; none if it is missing.

        A symbolic link comes as itself (``ObjectMeta.link``), and nothing behind it comes, but for a ``_delta_log``.
        In S3 a key that no path names (``//`` or ``..`` in it) comes by its location, which no verb takes.
        """

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete these objects; one that is already gone is not an error."""

    def head(self, path: str) -> ObjectMeta | None:
        """Size and time of an object, or None."""

    def sync(self, paths: Iterable[str]) -> None:
        """Make durable what was written outside ``put`` (data files), before a commit refers to it.

        Files of ``allowed_roots`` are passed over: nothing was written there.
        """

    def open_input(self, path: str) -> pa.NativeFile:
        """Random access to an object, for Parquet; ``ObjectNotFoundError`` when there is none."""

    def open_output(self, path: str) -> pa.NativeFile:
        """A new data file, under a unique name."""

    def explain(self, error: OSError) -> str | None:
        """A hint for an error of a file that ``open_input`` or ``open_output`` gave; None: nothing is known."""

    def spark_access(self, location: str) -> SparkAccess:
        """How Spark reaches ``root`` or one of ``allowed_roots``."""

    def make_root(self) -> None:
        """Make the table's folder for a program that writes there by itself; nothing where there are no folders.

        ``StoreError``: something else is in its place, or it may not be made.
        """
