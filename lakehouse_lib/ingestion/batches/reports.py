"""The newest batches of a source with their files, rows and commits, from the intent log and the logs of the tables.

Nothing is written, and no data file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.errors import VersionNotFoundError
from lakehouse_lib.ingestion.append import is_rejects_application, last_batch, snapshot_if_any
from lakehouse_lib.ingestion.intent_log import Intent, IntentLog, Outcome
from lakehouse_lib.ingestion.state.folds import Fold
from lakehouse_lib.ingestion.state.settled_files import NONE_SETTLED, read_segment
from lakehouse_lib.log.commits.commit_file import CommitActions, read_commit
from lakehouse_lib.log.history import commit_times
from lakehouse_lib.log.segment import Commit, list_commits
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.threads import map_in_threads

#: The field of a batch's commitInfo with the number of rejected rows for each rule that rows have broken.
RULES_BROKEN = "rulesBroken"
#: The number of newest commits that are searched for batches. Other verbs commit, too.
_MOST_COMMITS = 500
#: The largest number of folded files that are read.
_MOST_FOLDED = 1 << 20
_READERS = 16


@dataclass(frozen=True)
class BatchCommit:
    """The commit of a batch.

    Attributes:
        committed_at: ms since the epoch; None: log cleanup has deleted the commit meanwhile.
        info: its commitInfo.
    """

    version: int
    committed_at: int | None
    info: Mapping[str, Any]

    @property
    def rows(self) -> int | None:
        """The number of rows that the commit added; None: the commitInfo has no number."""
        metrics = self.info.get("operationMetrics")
        rows = str(metrics.get("numOutputRows")) if isinstance(metrics, Mapping) else ""
        return int(rows) if rows.isdecimal() else None

    @property
    def rules_broken(self) -> Mapping[str, int]:
        """The number of rejected rows for each rule that rows have broken, as the batch has recorded it."""
        counts = self.info.get(RULES_BROKEN)
        if not isinstance(counts, Mapping):
            return {}
        return {str(rule): count for rule, count in counts.items() if type(count) is int}


@dataclass(frozen=True)
class BatchReport:
    """The report of a batch.

    Attributes:
        state: ``loaded``, ``given up`` or ``unfinished``. The next run finishes an unfinished batch.
        files: the number of its files, refused files included. If the batch is folded, files whose names are in a later
            batch may be left out. None: the batch is folded, and its files are not in the newest segments.
        bytes: the size of these files; None: as for ``files``.
        names: the names of the first of these files; empty if the batch is folded.
        refused: name -> reason, for each refused file.
        reason: why the batch was given up.
        started_at: the time when its intent was put, ms since the epoch; None: the batch is folded.
        commit: the commit of its rows. None: there is none, or it is not among the newest commits of the table.
        rejected: the commits of its rejected rows to the quarantine, newest first; there may be several if the suite
            compares keys with the table. Empty: there are none, or they are not among the newest commits of the
            quarantine.
    """

    number: int
    state: str
    files: int | None = None
    bytes: int | None = None
    names: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)
    reason: str | None = None
    started_at: int | None = None
    commit: BatchCommit | None = None
    rejected: tuple[BatchCommit, ...] = ()

    @property
    def rejected_rows(self) -> int:
        """The number of rejected rows in these commits."""
        return sum(commit.rows or 0 for commit in self.rejected)

    @property
    def seconds(self) -> float | None:
        """The time from the put of the intent to the commit; None: one of these times is not known.

        After a crash, it includes the wait for the next run.
        """
        if self.started_at is None or self.commit is None or self.commit.committed_at is None:
            return None
        return max(0, self.commit.committed_at - self.started_at) / 1000


def newest_batches(
    store: ObjectStore, source: str, quarantine: ObjectStore | None, *, most: int = 50, names: int = 3
) -> list[BatchReport]:
    """The newest batches of a source, newest first.

    Args:
        store: the store of the table.
        quarantine: the store of its quarantine table; None: the reports have no commits of rejected rows.
        most: the largest number of batches.
        names: the largest number of file names of a batch.

    Raises:
        IngestError: an entry of the intent log is not valid.
    """
    log = IntentLog(store, source)
    fold, intents, outcomes = log.read_after_fold()
    last = last_batch(snapshot_if_any(store), source)
    commits = _commits(store, lambda app_id: app_id == source, most)
    identity = log.find_identity()
    rejected = {}
    if quarantine is not None and identity is not None:
        rejected = _commits(quarantine, lambda app_id: is_rejects_application(app_id, source, identity), most)
    numbers = sorted({*intents, *commits}, reverse=True)[:most]
    started = log.started()
    folded = _folded(store, fold, [number for number in numbers if number not in intents])
    reports = []
    for number in numbers:
        intent, outcome = intents.get(number), outcomes.get(number, Outcome(number))
        files, size, refused = folded.get(number, (None, None, {})) if intent is None else _files(intent, outcome)
        reports.append(
            BatchReport(
                number,
                _state(number, outcome, last),
                files,
                size,
                tuple(file.name for file in intent.files[:names]) if intent is not None else (),
                refused,
                outcome.given_up,
                started.get(number),
                next(iter(commits.get(number, ())), None),
                rejected.get(number, ()),
            )
        )
    return reports


def _state(number: int, outcome: Outcome, last: int | None) -> str:
    if outcome.given_up is not None:
        return "given up"
    return "loaded" if last is not None and number <= last else "unfinished"


def _files(intent: Intent, outcome: Outcome) -> tuple[int, int, Mapping[str, str]]:
    return len(intent.files), sum(file.size for file in intent.files), outcome.refused


def _folded(
    store: ObjectStore, fold: Fold, numbers: Sequence[int]
) -> dict[int, tuple[int | None, int | None, Mapping[str, str]]]:
    """By batch number, the number of files, their size and the refused files of folded batches.

    Only the newest segments are read.
    """
    rows, parts = 0, [NONE_SETTLED]
    for segment in reversed(fold.segments if numbers else ()):
        rows += segment.rows
        if rows > _MOST_FOLDED:
            break
        part = read_segment(store, segment)
        parts.append(part.filter(pc.is_in(part["batch"], pa.array(numbers, pa.int64()))))
    files = pa.concat_tables(parts)
    counts = files.group_by("batch").aggregate([("size", "count"), ("size", "sum")])
    refused: dict[int, dict[str, str]] = {}
    for row in files.filter(pc.is_valid(files["refused"])).select(["batch", "name", "refused"]).to_pylist():
        refused.setdefault(row["batch"], {})[row["name"]] = row["refused"]
    return {
        row["batch"]: (row["size_count"], row["size_sum"], refused.get(row["batch"], {})) for row in counts.to_pylist()
    }


def _commits(store: ObjectStore, has_batches: Callable[[str], bool], most: int) -> dict[int, tuple[BatchCommit, ...]]:
    """The newest commits with a ``txn`` of a batch, by the number of the batch, newest first.

    Args:
        has_batches: returns whether the ``txn`` versions of an application id are numbers of batches.
    """
    listed = list_commits(store)[: -_MOST_COMMITS - 1 : -1]
    by_number: dict[int, list[tuple[Commit, CommitActions]]] = {}
    for commit, actions in zip(listed, map_in_threads(_reader(store), listed, _READERS, ahead=_READERS), strict=True):
        for transaction in () if actions is None else actions.transactions:
            if has_batches(transaction.app_id) and actions is not None:
                by_number.setdefault(transaction.version, []).append((commit, actions))
        if len(by_number) > most:
            break
    chosen = sorted((commit for each in by_number.values() for commit, _ in each), key=lambda each: each.version)
    times = commit_times(store, chosen) if chosen else {}
    return {
        number: tuple(BatchCommit(commit.version, times.get(commit.version), actions.info) for commit, actions in each)
        for number, each in by_number.items()
    }


def _reader(store: ObjectStore) -> Callable[[Commit], CommitActions | None]:
    def read(commit: Commit) -> CommitActions | None:
        try:
            return read_commit(store, commit.version, size=commit.size)
        except VersionNotFoundError:  # log cleanup deleted it after it was listed
            return None

    return read
