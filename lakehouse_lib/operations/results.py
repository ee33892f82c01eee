"""The results of verbs: frozen values for callers of the library, result lines of jobs and Airflow's XCom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

#: The folder in a table's folder for the outcomes of jobs. Its objects are not files of the table.
JOBS_FOLDER = "_jobs"


@dataclass(frozen=True)
class OperationResult:
    """The result of a verb on one table.

    Attributes:
        table: the table's location.
        read_version: the version from which the verb planned; None: the table did not exist.
        version: the last version that the verb committed; None: it committed nothing.
    """

    table: str
    read_version: int | None
    version: int | None

    @property
    def version_after(self) -> int | None:
        """The version that the verb committed, else the read version."""
        return self.read_version if self.version is None else self.version

    def to_dict(self) -> dict[str, Any]:
        """Every field by its name, as values that ``json.dumps`` accepts."""
        return {item.name: _json_value(getattr(self, item.name)) for item in fields(self)}


@dataclass(frozen=True)
class ChangeResult(OperationResult):
    """The result of a verb that changes files of a table.

    Attributes:
        metrics: numbers under delta-spark's names: the commit's operationMetrics and, for OPTIMIZE, the metrics that
            delta-spark's command returns. If the verb committed nothing, the counts of changed files are 0.
            ``autoCompact``: the metrics of the auto-compaction after a write, which commits a later version.
    """

    metrics: Mapping[str, Any]


@dataclass(frozen=True)
class EarlierChangeResult(ChangeResult):
    """The result of a verb that changed nothing, because an earlier try committed the same application transaction.

    Attributes:
        read_version, version, metrics: the values of the earlier try's commit. If this commit is no longer in the log,
            ``read_version`` is the latest version, ``version`` is None and all counts are 0.
        done_before: always True.
    """

    done_before: bool = True


@dataclass(frozen=True)
class RestoreResult(ChangeResult):
    """The result of a restore.

    Attributes:
        dry_run: whether the restore was only planned, and nothing was committed.
        target_version: the version that was restored.
        missing_files: the log paths of the version's data files that do not exist, or whose deletion vector does not
            exist. The restore left these files out.
    """

    dry_run: bool
    target_version: int
    missing_files: tuple[str, ...]


@dataclass(frozen=True)
class VacuumResult(ChangeResult):
    """The result of a vacuum.

    Attributes:
        dry_run: whether the vacuum only listed the files, and deleted nothing.
        retention_hours: the requested hours; None: the table's own retention.
        files: deleted paths, or in a dry run the paths to be deleted, at most the first 100,000: relative to the table,
            decoded and sorted. The metrics count all files.
    """

    dry_run: bool
    retention_hours: float | None
    files: tuple[str, ...]

    @property
    def file_count(self) -> int:
        """The number of all deleted files, or in a dry run of the files to be deleted."""
        return int(self.metrics["numFilesToDelete" if self.dry_run else "numDeletedFiles"])


@dataclass(frozen=True)
class CleanupResult(OperationResult):
    """The result of a cleanup of the log.

    Attributes:
        dry_run: whether the cleanup only listed the files, and deleted nothing.
        files: deleted paths, or in a dry run the paths to be deleted: relative to the table, in order of deletion.
    """

    dry_run: bool
    files: tuple[str, ...]

    @property
    def file_count(self) -> int:
        """The number of ``files``."""
        return len(self.files)


@dataclass(frozen=True)
class PinResult(OperationResult):
    """The result of pinning or releasing a version, which commits nothing.

    Attributes:
        name: the name of the pin.
        pinned_version: the version that the pin keeps, or kept until its release.
    """

    name: str
    pinned_version: int


@dataclass(frozen=True)
class RepairResult(OperationResult):
    """The findings of a repair. With ``dry_run`` nothing was repaired.

    Attributes:
        version: the version of the commit that removes missing files; None: nothing was committed.
        files_removed: the log paths of missing data files to which the log refers. Repaired: the commit ``version``
            removes these files.
        vectors_missing: existing data files whose deletion vector is missing. Not repaired: without the vector it is
            unknown which rows are deleted. Restore the vector's file, or delete the rows again by a condition.
        sizes_wrong: path -> both sizes, for data files whose size differs from the log; they are truncated or
            overwritten. Not repaired: restore them from a backup, or delete them and repair again.
        commits_missing: versions between the first and the last commit of the log without a commit file, such as "5" or
            "7 to 9". Not repaired: these versions, and the later ones up to the next checkpoint, cannot be read. An
            interrupted cleanup of the log leaves such gaps too, among expired versions.
        commits_torn: path -> reason, for commit files that cannot be read. Not repaired: restore them from a backup.
            These versions, and the later ones up to the next checkpoint, cannot be read.
        checkpoints_unreadable: path -> reason, for unreadable checkpoints whose versions can be read from other
            files of the log. Repaired: deleted.
        checkpoints_needed: path -> reason, for unreadable checkpoints that a version needs. Not repaired: restore them
            from a backup.
        compactions_wrong: path -> reason, for log compactions that differ from their commits. Repaired: deleted.
        paths_live_twice: the log paths of data files that are live twice; no verb reads such a version. A needed
            checkpoint or the commits are wrong. Not repaired: restore the checkpoint from a backup, or read an earlier
            version. If there are such files, the other data files are not checked.
        checksums_wrong: path -> reason. Repaired: deleted.
        last_checkpoint: the problem with ``_last_checkpoint``, or None. Repaired: deleted; the next checkpoint writes a
            new one.
        temporary: files of killed processes in the log that are older than a day. Repaired: deleted.
    """

    #: The kinds of findings that are repaired.
    REPAIRED: ClassVar[tuple[str, ...]] = (
        "files_removed",
        "checkpoints_unreadable",
        "compactions_wrong",
        "checksums_wrong",
        "last_checkpoint",
        "temporary",
    )

    dry_run: bool
    files_removed: list[str] = field(default_factory=list)
    vectors_missing: list[str] = field(default_factory=list)
    sizes_wrong: dict[str, str] = field(default_factory=dict)
    commits_missing: list[str] = field(default_factory=list)
    commits_torn: dict[str, str] = field(default_factory=dict)
    checkpoints_unreadable: dict[str, str] = field(default_factory=dict)
    checkpoints_needed: dict[str, str] = field(default_factory=dict)
    compactions_wrong: dict[str, str] = field(default_factory=dict)
    paths_live_twice: list[str] = field(default_factory=list)
    checksums_wrong: dict[str, str] = field(default_factory=dict)
    last_checkpoint: str | None = None
    temporary: list[str] = field(default_factory=list)

    @classmethod
    def kinds(cls) -> list[str]:
        """The names of all kinds of findings."""
        other_fields = {*OperationResult.__dataclass_fields__, "dry_run"}
        return [item.name for item in fields(cls) if item.name not in other_fields]

    @property
    def findings(self) -> dict[str, Any]:
        """The findings by kind; a kind without findings is left out."""
        return {kind: value for kind in self.kinds() if (value := getattr(self, kind))}

    @property
    def is_sound(self) -> bool:
        """Whether the repair found no damage."""
        return not self.findings


def _json_value(value: Any) -> Any:
    if isinstance(value, OperationResult):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return value
