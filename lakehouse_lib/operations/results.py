"""What verbs return: frozen values, the same for a caller of the library, a job's result line and Airflow's XCom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True)
class OperationResult:
    """What a verb has done to one table.

    Attributes:
        table: the table's location.
        read_version: the version by which the verb decided; None: there was no table.
        version: the version that the verb committed, the last one of several; None: it committed nothing.
    """

    table: str
    read_version: int | None
    version: int | None

    @property
    def version_after(self) -> int | None:
        """The version that the verb committed, else the one that it read."""
        return self.read_version if self.version is None else self.version

    def to_dict(self) -> dict[str, Any]:
        """Every field by its name, as values that ``json.dumps`` takes."""
        return {each.name: _json_value(getattr(self, each.name)) for each in fields(self)}


@dataclass(frozen=True)
class ChangeResult(OperationResult):
    """What a verb has done that changes files of a table.

    Attributes:
        metrics: numbers under delta-spark's names: those of the commit's operationMetrics and, of OPTIMIZE, those that
            delta-spark's command returns. Where the verb committed nothing they say so: files that changed are 0.
    """

    metrics: Mapping[str, Any]


@dataclass(frozen=True)
class VacuumResult(ChangeResult):
    """What a vacuum has deleted, or would.

    Attributes:
        dry_run: nothing was deleted.
        retention_hours: the hours that were asked for; None: the table's own retention.
        files: paths deleted or, in a dry run, to be deleted: relative to the table and decoded, sorted.
    """

    dry_run: bool
    retention_hours: float | None
    files: tuple[str, ...]


@dataclass(frozen=True)
class CleanupResult(OperationResult):
    """What a cleanup of the log has deleted, or would.

    Attributes:
        dry_run: nothing was deleted.
        files: paths deleted or, in a dry run, to be deleted: relative to the table, in the order of their deletion.
    """

    dry_run: bool
    files: tuple[str, ...]


@dataclass(frozen=True)
class RepairResult(OperationResult):
    """What is wrong with a table; ``dry_run`` says whether it still is.

    Attributes:
        version: of the commit that removes files.
        files_removed: data files that the log refers to and that are not there, as in the log. Repaired: they are taken
            out of the log, in ``version``.
        vectors_missing: data files that are there, whose deletion vector is not. Not repaired: the log does not say
            which of their rows are deleted. Restore the vector's file, or delete by a condition what may come back.
        sizes_wrong: data files that are not as large as the log says -> how large: torn, or overwritten.
            Not repaired: restore them from a backup, or delete them and repair again.
        commits_missing: versions between the first and the last of the log that have no commit file, such as "5" or
            "7 to 9". Not repaired: these and the later ones up to the next checkpoint cannot be read. A cleanup of the
            log that was interrupted leaves such holes, too, among what has expired.
        commits_torn: path -> why, of commit files that cannot be read. Not repaired: restore them from a backup. These
            versions and the later ones up to the next checkpoint cannot be read, nor the table where there is none.
        checkpoints_unreadable: path -> why, of checkpoints whose versions the rest of the log tells. Repaired: deleted.
        checkpoints_needed: path -> why, of checkpoints without which some version is lost. Not repaired: restore them
            from a backup.
        compactions_wrong: path -> why, of log compactions that differ from their commits, which are all there.
            Repaired: deleted.
        paths_live_twice: data files, as in the log, that are live twice, so that no verb reads them: a checkpoint that
            is needed or the commits themselves are wrong. Not repaired: restore the checkpoint from a backup, or read a
            version from before. The other data files are not checked then.
        checksums_wrong: path -> why. Repaired: deleted.
        last_checkpoint: what is wrong with ``_last_checkpoint``, or None. Repaired: deleted; the next checkpoint brings
            another one.
        temporary: files of killed processes in the log that are older than a day. Repaired: deleted.
    """

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
        others = {*OperationResult.__dataclass_fields__, "dry_run"}
        return [each.name for each in fields(cls) if each.name not in others]

    @property
    def findings(self) -> dict[str, Any]:
        """What is wrong, by kind; a kind of which there is nothing is left out."""
        return {kind: value for kind in self.kinds() if (value := getattr(self, kind))}

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings


def _json_value(value: Any) -> Any:
    if isinstance(value, OperationResult):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): _json_value(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(each) for each in value]
    return value
