"""The ledger: it sees every change of the bucket as it happens, and knows the right content of each version.

The commitInfo of each commit has its operation. The rows of a version must be the result of the operation on the rows
before. So the order of the log is a serial order, no row is lost or doubled, and every reader sees one of these
versions. In a table with WriteSerializable, an operation that did not see concurrent blind appends may come before
them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

from lakehouse_lib.errors import CommitFailedError
from lakehouse_lib.log import file_names
from tests.simulation.log_files import actions_of, checkpoint_of
from tests.simulation.operations import NOTHING, Rows, applied, replayed, row_ids
from tests.simulation.refusals import Attempt, has_reason
from tests.simulation.simulation import SLOWEST_CLOCK

_DAY = 86_400_000


#: A version and its operation.
_Placed = tuple[int, Mapping[str, Any]]


class Violation(AssertionError):
    """A guarantee that was broken."""


class State(NamedTuple):
    """A version: its rows, their files, and the other content of the log."""

    files: frozenset[str]
    rows: Rows
    applications: Mapping[str, int]
    tombstones: Mapping[str, int]
    count: int
    written: float  # ms
    moment: int = -1  # in-commit timestamp, ms
    ids: Mapping[str, int] = {}  # the first row id of each file
    highest: int = -1
    ids_by_row: Mapping[str, tuple[int, int]] = {}  # each row's id and row commit version
    operation: Mapping[str, Any] = NOTHING


@dataclass(frozen=True)
class Terms:
    """The guarantees of the table.

    Attributes:
        retention: ms for which replaced or uncommitted files are kept.
        log_retention: ms for which replaced versions can be opened.
        reorders_appends: whether the table is WriteSerializable.
        has_times: whether commits have in-commit timestamps.
        has_row_ids: whether the table has row tracking.
        others_clean_up: whether another engine deletes commits as soon as a checkpoint covers them.
    """

    retention: float
    log_retention: float
    reorders_appends: bool = False
    has_times: bool = False
    has_row_ids: bool = False
    others_clean_up: bool = False


class Ledger:
    """The right content of each version of a table.

    Args:
        now: the store's clock, ms.
        terms: the guarantees of the table.
    """

    def __init__(self, now: Callable[[], float], terms: Terms) -> None:
        self.now = now
        self.terms = terms
        self.states: list[State] = []
        self.table_id = ""
        self.operations: dict[str, int] = {}  # id -> version
        self.serial: list[_Placed] = []  # versions and operations in a serial order
        self._rows_before: dict[str, tuple[int, int]] = {}  # the rows before the first of these
        self._reading: list[int] = []  # versions that may have been computed from rows that must not be visible yet
        self._refused: set[str] = set()
        self._data: dict[str, Rows] = {}
        self._raw: dict[str, Mapping[str, list[int | None]]] = {}  # the same as stored, with row ids and versions
        self._stored: dict[str, float] = {}  # path -> time, of the stored objects
        self._sidecars: dict[str, bytes] = {}
        self._checkpoints: dict[str, tuple[int, frozenset[str]]] = {}  # path -> version, sidecars
        self._hint = -1

    def copy(self, now: Callable[[], float]) -> Ledger:
        """A ledger with the same content."""
        twin = Ledger(now, self.terms)
        for name, value in vars(self).items():
            if isinstance(value, list | dict | set):
                setattr(twin, name, value.copy())
        twin._hint, twin.table_id = self._hint, self.table_id
        return twin

    def watch(self, path: str, data: bytes | None) -> None:
        """Check a change of the bucket, before any actor sees it."""
        if data is None:
            self._deleted(path)
            return
        name = file_names.parse(path) if path.startswith(f"{file_names.LOG}/") else None
        if name is not None and name.kind == "commit":
            self._commit(name.version, path, data)
        elif name is not None and name.kind != "compacted":
            self._checkpoint(name.version, path, data)
        elif path == file_names.LAST_CHECKPOINT:
            self._last_checkpoint(data)
        elif path.startswith(f"{file_names.SIDECARS}/"):
            self._sidecars[path.rsplit("/", 1)[-1]] = data
        elif path.endswith(".crc"):
            self._checksum(path, data)
        elif not path.startswith(f"{file_names.LOG}/"):
            self._data_file(path, data)
        self._stored[path] = self.now()

    def acknowledged(self, operation: str, version: int) -> None:
        if self.operations.get(operation) != version:
            raise Violation(f"{operation} is version {self.operations.get(operation)}; its actor got version {version}")

    def refused(self, operation: str) -> None:
        if operation in self.operations:
            raise Violation(f"{operation} is version {self.operations[operation]}; its actor got a conflict")
        self._refused.add(operation)

    def conflicted(self, attempt: Attempt, error: CommitFailedError) -> None:
        """Check that a refused operation had a conflict with the winning commit in the error."""
        self.refused(attempt.operation["id"])
        if attempt.operation["table"] == self.table_id and not has_reason(
            error,
            attempt,
            self.states,
            lambda path: [key for key, _ in self._data[path].values()],
            lambda version: file_names.commit(version) in self._stored,
            reorders_appends=self.terms.reorders_appends,
        ):
            raise Violation(f"{attempt} is refused without a conflict: {error!r}")

    def newest_checkpoint(self) -> list[str]:
        """All objects that are needed to read the newest checkpoint."""
        path, (_, sidecars) = max(self._checkpoints.items(), key=lambda checkpoint: checkpoint[1][0])
        return [path, *sorted(f"{file_names.SIDECARS}/{sidecar.rsplit('/', 1)[-1]}" for sidecar in sidecars)]

    def torn(self, path: str) -> None:
        """Forget a checkpoint that has lost half its bytes, because no version can be read from it."""
        name = path.rsplit("/", 1)[-1]
        self._sidecars.pop(name, None)
        self._checkpoints = {
            checkpoint: (version, sidecars)
            for checkpoint, (version, sidecars) in self._checkpoints.items()
            if checkpoint != path and name not in {sidecar.rsplit("/", 1)[-1] for sidecar in sidecars}
        }

    def check_rows(self, version: int, rows: Rows) -> None:
        """Check the rows that a reader has read."""
        if not 0 <= version < len(self.states) or rows != self.states[version].rows:
            raise Violation(f"a reader of version {version} found {dict(rows)}")

    def is_promised(self, version: int) -> bool:
        """Whether the files of a version must still exist."""
        return self._replaced_at(version) > self.now() - self.terms.retention + SLOWEST_CLOCK

    def is_kept(self, version: int) -> bool:
        """Whether the log must still have a version: it was the latest at the cutoff's midnight, or is newer."""
        if self.terms.others_clean_up:
            return version >= max((number for number, _ in self._checkpoints.values()), default=0)
        since = self.now() - self.terms.log_retention
        return self._replaced_at(version) > since - since % _DAY

    def _commit(self, version: int, path: str, data: bytes) -> None:
        if version != len(self.states):
            if self.terms.others_clean_up and any(version < number for number, _ in self._checkpoints.values()):
                return  # no reader could read it: its writer must not report it as committed
            raise Violation(f"commit {version} is put when {len(self.states) - 1} is the latest version")
        actions = actions_of(data)
        before = self.states[-1] if self.states else State(frozenset(), {}, {}, {}, 0, 0)
        state = self._after(version, before, actions)
        operation = actions["commitInfo"][0].get("simulated", NOTHING)
        self.table_id = next((body["id"] for body in actions.get("metaData", [])), self.table_id)
        if operation.get("table", self.table_id) != self.table_id:
            raise Violation(f"version {version} belongs to the table that was deleted")
        self._explain(version, operation, actions["commitInfo"][0].get("readVersion", -1), before.rows, state.rows)
        if operation["kind"] == "count" and state.count != before.count + 1:
            raise Violation(f"version {version} counts {state.count} after {before.count}")
        name = operation.get("id", f"version {version}")
        if name in self.operations:
            raise Violation(f"{name} is version {self.operations[name]} and also version {version}")
        if name in self._refused:
            raise Violation(f"{name} becomes version {version} after its actor got a conflict")
        self.states.append(state._replace(operation=operation))
        self.operations[name] = version

    def _after(self, version: int, before: State, actions: Mapping[str, list[Any]]) -> State:
        files, tombstones = set(before.files), dict(before.tombstones)
        for body in actions.get("remove", []):
            if body["path"] not in files:
                raise Violation(f"version {version} removes {body['path']}, which is not live")
            files.remove(body["path"])
            tombstones[body["path"]] = body.get("deletionTimestamp", 0)
        files.update(body["path"] for body in actions.get("add", []))
        if missing := sorted(files - self._stored.keys()):
            raise Violation(f"version {version} refers to {missing[0]}, which is not stored")
        rows: dict[str, tuple[int, int]] = {}
        for file in sorted(files):
            if doubled := rows.keys() & self._data[file].keys():
                raise Violation(f"version {version} has the rows {sorted(doubled)} twice")
            rows |= self._data[file]
        applications = dict(before.applications)
        for body in actions.get("txn", []):
            if applications.get(body["appId"], -1) >= body["version"]:
                raise Violation(f"version {version} repeats {body['version']} of {body['appId']}")
            applications[body["appId"]] = body["version"]
        count = before.count
        for body in actions.get("metaData", []):
            count = int(body["configuration"].get("simulated.count", 0))
        moment = self._moment(version, before, actions)
        ids, highest = self._ids(version, before, actions)
        ids = {path: first for path, first in ids.items() if path in files}
        ids_by_row = self._ids_by_row(version, before, actions, rows)
        return State(
            frozenset(files), rows, applications, tombstones, count, self.now(), moment, ids, highest, ids_by_row
        )

    def _moment(self, version: int, before: State, actions: Mapping[str, list[Any]]) -> int:
        """Check that in-commit timestamps rise, with every clock."""
        timestamp = actions["commitInfo"][0].get("inCommitTimestamp")
        if not self.terms.has_times and timestamp is None:
            return before.moment
        if not self.terms.has_times or next(iter(actions)) != "commitInfo" or not timestamp > before.moment:
            raise Violation(f"version {version} was committed at {timestamp}, after {before.moment}")
        return int(timestamp)

    def _ids(self, version: int, before: State, actions: Mapping[str, list[Any]]) -> tuple[Mapping[str, int], int]:
        """Check that every row id is new, and that the high water mark is right."""
        if not self.terms.has_row_ids:
            return {}, -1
        ids, highest = dict(before.ids), before.highest
        for body in sorted(actions.get("add", []), key=lambda body: body["baseRowId"]):
            if body["baseRowId"] <= highest or body["defaultRowCommitVersion"] != version:
                raise Violation(f"version {version} assigns ids after {highest} to {body}")
            ids[body["path"]] = body["baseRowId"]
            highest = body["baseRowId"] + len(self._data[body["path"]]) - 1
        domains = [json.loads(body["configuration"]) for body in actions.get("domainMetadata", [])]
        if [domain["rowIdHighWaterMark"] for domain in domains] != ([highest] if highest > before.highest else []):
            raise Violation(f"version {version} has the high water mark {domains}; expected {highest}")
        return ids, highest

    def _ids_by_row(
        self, version: int, before: State, actions: Mapping[str, list[Any]], rows: Rows
    ) -> Mapping[str, tuple[int, int]]:
        """Check that each row keeps its id, and has the version that inserted or last changed it."""
        if not self.terms.has_row_ids:
            return {}
        ids_by_row = {name: ids for name, ids in before.ids_by_row.items() if name in rows}
        for body in actions.get("add", []):
            for name, (row, own) in row_ids(self._raw[body["path"]], body["baseRowId"], version).items():
                old, came = ids_by_row.get(name, (row, version))
                if (row, own) != (old, came if before.rows.get(name) == rows[name] else version):
                    raise Violation(f"version {version} has {name} with the id {row} of {own}, not {old} of {came}")
                ids_by_row[name] = (row, own)
        if len({row for row, _ in ids_by_row.values()}) < len(rows):
            raise Violation(f"version {version} has rows with the same id: {ids_by_row}")
        return ids_by_row

    def _explain(self, version: int, operation: Mapping[str, Any], read: int, before: Rows, after: Rows) -> None:
        """Find the operation's place in the serial order."""
        if operation["kind"] == "insert":
            self._reading.append(version)
        if applied(operation, before) == after:
            self.serial.append((version, operation))
            return
        if self.terms.reorders_appends and after == self._unseeing(operation, read, before):
            for later in _some_of([entry for entry in self.serial if entry[0] > read]):
                order = [*(entry for entry in self.serial if entry not in later), (version, operation), *later]
                if replayed((step for _, step in order), self._rows_before) == after:
                    self.serial = order
                    return
            if self._may_have_seen_it(read, version):
                self._reading.append(version)
                self.serial, self._rows_before = [], dict(after)
                return
        raise Violation(f"version {version}, {operation}: {_difference(after, applied(operation, before))}")

    def _may_have_seen_it(self, read: int, version: int) -> bool:
        """Whether an operation after ``read`` may have seen the blind append without seeing ``version``; then these
        three have no serial order.
        """
        return any(read < other < version for other in self._reading)

    def _unseeing(self, operation: Mapping[str, Any], read: int, before: Rows) -> Rows:
        """The result of an operation that sees everything before it except the blind appends since it began."""
        since = (state.operation for state in self.states[read + 1 :])
        unseen = {row for later in since if later["kind"] == "append" for row in later["rows"]}
        visible = {name: row for name, row in before.items() if name not in unseen}
        return {**applied(operation, visible), **{name: row for name, row in before.items() if name in unseen}}

    def _checkpoint(self, version: int, path: str, data: bytes) -> None:
        if version >= len(self.states):
            raise Violation(f"a checkpoint is put for version {version}, which is not committed")
        contents, state = checkpoint_of(path, data, self._sidecar), self.states[version]
        if contents.files != state.files:
            raise Violation(f"the checkpoint of version {version} has the files {sorted(contents.files)}")
        if contents.applications != state.applications:
            raise Violation(f"the checkpoint of version {version} has the transactions {contents.applications}")
        if contents.ids != state.ids or contents.highest != state.highest:
            raise Violation(f"the checkpoint of version {version} has the ids {contents.ids}, up to {contents.highest}")
        tombstones = {path: when for path, when in state.tombstones.items() if path not in state.files}
        forgotten = {path for path, when in tombstones.items() if when > self.now() - self.terms.retention}
        forgotten -= contents.tombstones.keys()
        if forgotten or not contents.tombstones.items() <= tombstones.items():
            raise Violation(
                f"the checkpoint of version {version} has the tombstones {contents.tombstones}; expected {tombstones}"
            )
        self._checkpoints[path] = (version, frozenset(contents.sidecars))

    def _sidecar(self, name: str) -> bytes:
        if name not in self._sidecars:
            raise Violation(f"a checkpoint needs the sidecar {name}, which is not stored")
        return self._sidecars[name]

    def _checksum(self, path: str, data: bytes) -> None:
        version, said = int(path.rsplit("/", 1)[-1].split(".")[0]), json.loads(data)
        if version >= len(self.states):
            raise Violation(f"a checksum is put for version {version}, which is not committed")
        state = self.states[version]
        if self.terms.has_times and said.get("inCommitTimestampOpt") != state.moment:
            raise Violation(f"the checksum of version {version} is {said}; expected the timestamp {state.moment}")
        transactions = said.get("setTransactions")
        if said["numFiles"] != len(state.files) or (
            transactions is not None and {t["appId"]: t["version"] for t in transactions} != state.applications
        ):
            raise Violation(f"the checksum of version {version} is wrong: {said}")

    def _last_checkpoint(self, data: bytes) -> None:
        version = json.loads(data)["version"]
        if version < self._hint:
            raise Violation(f"_last_checkpoint goes back from {self._hint} to {version}")
        if not any(version <= number for number, _ in self._checkpoints.values()):
            raise Violation(f"_last_checkpoint points to {version}, which has no checkpoint")
        self._hint = version

    def _data_file(self, path: str, data: bytes) -> None:
        self._raw[path] = json.loads(data)
        rows = {name: (key, value) for name, (key, value, *_) in self._raw[path].items()}
        if self._data.setdefault(path, rows) != rows:
            raise Violation(f"the data file {path} is written twice")

    def _deleted(self, path: str) -> None:
        since = self._stored.pop(path, None)
        if since is None:
            return
        if path.startswith(f"{file_names.LOG}/"):
            self._log_deleted(path)
            return
        versions = [version for version, state in enumerate(self.states) if path in state.files]
        for version in versions:
            if self.is_promised(version):
                raise Violation(f"{path} is deleted while version {version} may still be read")
        if not versions and since > self.now() - self.terms.retention:
            raise Violation(f"{path} is deleted before its writer could commit it")

    def _log_deleted(self, path: str) -> None:
        self._checkpoints.pop(path, None)
        for version in range(len(self.states)):
            if self.is_kept(version) and not self._can_be_built(version):
                raise Violation(f"{path} is deleted, so version {version} can no longer be read")
        name = path.rsplit("/", 1)[-1]
        if any(name in {sidecar.rsplit("/", 1)[-1] for sidecar in needed} for _, needed in self._checkpoints.values()):
            raise Violation(f"the sidecar {name} is deleted, which a checkpoint needs")

    def _can_be_built(self, version: int) -> bool:
        base = max((number for number, _ in self._checkpoints.values() if number <= version), default=-1)
        return all(file_names.commit(number) in self._stored for number in range(base + 1, version + 1))

    def _replaced_at(self, version: int) -> float:
        return self.states[version + 1].written if version + 1 < len(self.states) else float("inf")


def _some_of(entries: list[_Placed]) -> Iterator[tuple[_Placed, ...]]:
    """Every choice of some of these in their order, small choices first."""
    for count in range(1, len(entries) + 1):
        yield from combinations(entries, count)


def _difference(actual: Rows, expected: Rows) -> str:
    lost = {name: row for name, row in expected.items() if actual.get(name) != row}
    more = {name: row for name, row in actual.items() if expected.get(name) != row}
    return f"wanted {lost}, found {more}"
