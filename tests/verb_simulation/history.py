"""The history in the log and the data files, read by a few lines of the simulation and compared with the plans.

Each row has a unique ``id``, so a lost, doubled or restored row can be named.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq

from lakehouse_lib.log import file_names
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.protocol.table_properties import ROW_TRACKING
from lakehouse_lib.store import ObjectStore
from tests.verb_simulation.numbers import COLUMN, Numbers
from tests.verb_simulation.plans import Properties, Rows, breaks_a_rule

#: Names under which ``Version.properties`` has the columns and the description.
COLUMNS, DESCRIPTION = "columns", "description"
#: ``add`` actions by their path and deletion vector.
Files = dict[tuple[str, str], dict[str, Any]]
_COLUMNS = ("delta.rowTracking.materializedRowIdColumnName", "delta.rowTracking.materializedRowCommitVersionColumnName")


class Violation(Exception):
    """A guarantee that was broken."""


@dataclass
class Version:
    """The content of a version.

    Attributes:
        name: the name of its operation, "" for version 0.
        ids: row id and row commit version of each row, if the table has row tracking.
        numbers: the number of each row in the identity column, if the table has one.
        properties: the table's properties, its columns and its description.
        writes_metadata: whether its commit has metadata.
        moved: the lowest and the highest key in each file that its commit added or removed.
    """

    name: str
    files: Files
    rows: Rows
    ids: dict[int, tuple[int, int]]
    numbers: dict[int, int]
    properties: Properties
    writes_metadata: bool
    moved: list[tuple[int, int]]


class Reading:
    """Reads versions from the stored bytes.

    Args:
        objects: every object that was ever stored.
        store: the store for deletion vectors.
    """

    def __init__(self, objects: Mapping[str, bytes], store: ObjectStore) -> None:
        self._objects = objects
        self._store = store
        self._columns: dict[str, str] = {}
        self._properties: Properties = {}
        self._highest = -1
        self._used_ids: set[int] = set()  # all row ids, those of deleted rows included
        self._numbers = Numbers()
        self._files: dict[str, Any] = {}

    def versions(self) -> list[Version]:
        """All versions, from the commits alone.

        Raises:
            Violation: a commit removes a file that is not live, or adds a live file; a file is missing; statistics have
                another number of rows; a row exists twice or violates a constraint; a row's id or number
                changes, or is used twice; the change files of a commit have other changes than the commit.
        """
        versions: list[Version] = []
        files: Files = {}
        while True:
            version = len(versions)
            data = self._objects.get(file_names.commit(version))
            if data is None:
                return versions
            actions = _actions(data)
            self._remember(actions)
            before, files = files, replayed(files, data, version)
            info: dict[str, Any] = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
            rows, ids, numbers = self._rows(files, version)
            new = Version(
                info.get("userMetadata") or "",
                files,
                rows,
                ids,
                numbers,
                self._properties,
                any("metaData" in action for action in actions),
                [_keys_of((before | files)[key]) for key in before.keys() ^ files.keys()],
            )
            if breaks_a_rule(rows, self._properties):
                raise Violation(f"version {version} has rows that violate a constraint: {rows}, {self._properties}")
            if info.get("operation") == "RESTORE":
                restored = versions[int(info["operationParameters"]["version"])]
                if ids != restored.ids or numbers != restored.numbers:
                    expected = f"{restored.ids} and {restored.numbers} as restored"
                    raise Violation(
                        f"version {version} has the ids {ids} and the numbers {numbers}; expected {expected}"
                    )
            else:
                self._check_ids(versions[-1] if versions else new, new, version)
                if problem := self._numbers.problem(versions[-1].numbers if versions else {}, numbers):
                    raise Violation(f"version {version}: {problem}")
            if versions:
                self._check_changes(versions[-1], new, actions, version)
            versions.append(new)

    def _remember(self, actions: list[dict[str, Any]]) -> None:
        """Remember the properties, the names of the row tracking columns, and the high water marks."""
        if problem := self._numbers.remember(actions):
            raise Violation(problem)
        for action in actions:
            if "metaData" in action:
                properties = action["metaData"]["configuration"]
                fields = json.loads(action["metaData"]["schemaString"])["fields"]
                self._properties = {
                    **properties,
                    COLUMNS: ",".join(field["name"] for field in fields),
                    DESCRIPTION: action["metaData"].get("description") or "",
                }
                tracked = ROW_TRACKING.is_on(properties)
                self._columns = {name: properties[name] for name in _COLUMNS} if tracked else {}
            if "domainMetadata" in action and action["domainMetadata"]["domain"] == "delta.rowTracking":
                highest = json.loads(action["domainMetadata"]["configuration"])["rowIdHighWaterMark"]
                if highest < self._highest:
                    raise Violation(f"the high water mark goes back from {self._highest} to {highest}")
                self._highest = highest

    def _rows(self, files: Files, version: int) -> tuple[Rows, dict[int, tuple[int, int]], dict[int, int]]:
        rows: dict[int, tuple[int, int]] = {}
        ids: dict[int, tuple[int, int]] = {}
        numbers: dict[int, int] = {}
        for (path, _), add in files.items():
            table = self._read(path)
            if not _is_true(json.loads(add["stats"]), table):
                raise Violation(f"version {version} has the statistics {add['stats']} for {path} with the rows {table}")
            vector = add.get("deletionVector")
            gone = set(deletion_vector.load(self._store, vector))
            part = add["partitionValues"].get("part")
            for place, row in enumerate(table):
                if place in gone:
                    continue
                if row["id"] in rows:
                    raise Violation(f"version {version} has the row {row['id']} twice, the second time in {path}")
                rows[row["id"]] = (row["key"], row["part"] if part is None else int(part))
                if COLUMN.name in row:
                    numbers[row["id"]] = row[COLUMN.name]
                if self._columns:
                    ids[row["id"]] = self._id_of(row, place, add)
        if len({row for row, _ in ids.values()}) < len(ids) or any(row > self._highest for row, _ in ids.values()):
            raise Violation(f"version {version} has the row ids {ids}, up to {self._highest}")
        return rows, ids, numbers

    def _id_of(self, row: Mapping[str, int], place: int, add: Mapping[str, Any]) -> tuple[int, int]:
        number, since = (row.get(self._columns[name]) for name in _COLUMNS)
        return (
            add["baseRowId"] + place if number is None else number,
            add["defaultRowCommitVersion"] if since is None else since,
        )

    def _check_ids(self, before: Version, after: Version, version: int) -> None:
        """Check that old rows keep their ids, and that new rows have new ids and this version, as updated rows have."""
        for row_number, identity in after.ids.items():
            if row_number not in before.rows or before is after:
                if identity[1] != version or identity[0] in self._used_ids:
                    raise Violation(f"the row {row_number} is new in version {version}, and {identity}")
            elif before.ids and identity != (
                before.ids[row_number]
                if after.rows[row_number] == before.rows[row_number]
                else (before.ids[row_number][0], version)
            ):
                raise Violation(
                    f"the row {row_number} was {before.ids[row_number]} and is {identity} in version {version}"
                )
        self._used_ids |= {row for row, _ in after.ids.values()}

    def _check_changes(self, before: Version, after: Version, actions: list[dict[str, Any]], version: int) -> None:
        """Check that the change files have each change of a commit once, if it has change files."""
        changes: Counter[tuple[str, int, tuple[int, int]]] = Counter()
        numbers = before.numbers | after.numbers
        for cdc in (action["cdc"] for action in actions if "cdc" in action):
            part = cdc["partitionValues"].get("part")
            for row in self._read(cdc["path"]):
                key = row["key"], row["part"] if part is None else int(part)
                changes[str(row["_change_type"]), row["id"], key] += 1
                if row.get(COLUMN.name) != numbers.get(row["id"]):
                    raise Violation(f"version {version} has the numbers {numbers}, and the change {row}")
        if not changes:
            return
        effect = Counter(before.rows.items())
        for kind, row_number, row in changes:
            effect[row_number, row] += 1 if kind in ("insert", "update_postimage") else -1
        effect.subtract(Counter(after.rows.items()))
        if any(effect.values()) or max(changes.values()) > 1:
            raise Violation(f"version {version} has the changes {changes}, from {before.rows} to {after.rows}")

    def _read(self, path: str) -> list[dict[str, int]]:
        if path not in self._files:
            data = self._objects.get(path)
            if data is None:
                raise Violation(f"the log refers to {path}, which was never stored")
            self._files[path] = pq.ParquetFile(io.BytesIO(data)).read(use_threads=False).to_pylist()
        rows: list[dict[str, int]] = self._files[path]
        return rows


def replayed(files: Files, data: bytes, version: int) -> Files:
    """The live files after a commit.

    Raises:
        Violation: the commit removes a file that is not live, or adds a live file.
    """
    files = dict(files)
    actions = _actions(data)
    for action in actions:
        if "remove" in action and files.pop(_key(action["remove"]), None) is None:
            raise Violation(f"version {version} removes {_key(action['remove'])}, which is not live")
    for action in actions:
        if "add" in action:
            key = _key(action["add"])
            if any(path == key[0] for path, _ in files):
                raise Violation(f"version {version} adds {key[0]}, which is live already")
            files[key] = action["add"]
    return files


def _keys_of(add: Mapping[str, Any]) -> tuple[int, int]:
    stats = json.loads(add["stats"])
    return stats["minValues"]["key"], stats["maxValues"]["key"]


def _actions(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.decode().splitlines()]


def _key(action: Mapping[str, Any]) -> tuple[str, str]:
    vector = action.get("deletionVector") or {}
    return action["path"], "".join(str(vector.get(name)) for name in ("storageType", "pathOrInlineDv", "offset"))


def _is_true(stats: Mapping[str, Any], rows: list[dict[str, int]]) -> bool:
    """Whether statistics have the right number of rows and bounds of a file."""
    columns = stats["minValues"].keys() | stats["maxValues"].keys()
    return (
        stats["numRecords"] == len(rows)
        and columns >= {"id", "key"}
        and all(
            stats["minValues"][name] <= row[name] <= stats["maxValues"][name] and not stats["nullCount"][name]
            for name in columns
            for row in rows
        )
    )
