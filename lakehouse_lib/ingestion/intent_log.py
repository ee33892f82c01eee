"""The intent log: the files of each batch, recorded before the batch is loaded.

Beside the table, under ``_ingest/SOURCE/``:

- ``N.json`` (20 digits): the intent of batch N. It has the batch's files with size, time and digest, the source's
  definition, and the id of the run that has put the intent. It also has the batch's rules (format, schema, suite,
  conditions of the table, partition columns of a new table), so that a redo after a crash gives the same rows.
- ``N.outcome.json``: the decision to load the batch, with the refused files, or the reason why it is given up. The
  outcome is put before the commit. Only ``txn(SOURCE, N)`` in the table's log says that the batch is committed.
- ``identity.json``: the unique id of this log.
- ``staging/N-*``: rows of batch N that are judged or written only after all its files are parsed; they stay until the
  batch ends. Also the keys that its key rules refuse (``batches.keys``); they stay until the next run.
- ``folds/`` and ``settled/``: the files of older batches, whose intents and outcomes are deleted (``state.folds``).

All JSON objects are put if absent, so two processes cannot decide differently. The table's log has one ``txn`` action
for a source, whatever the number of batches and files.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse_lib.errors import ConcurrentTransactionError, IngestError, InvalidArgumentError, ObjectNotFoundError
from lakehouse_lib.ingestion.landing import Fingerprint
from lakehouse_lib.ingestion.state.folds import Fold, Folds
from lakehouse_lib.store import ObjectStore
from lakehouse_lib.threads import map_in_threads

_READERS = 16
_ENTRY = re.compile(r"^(\d{20})(\.outcome)?\.json$")
_SOURCE = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")


@dataclass(frozen=True)
class Intent:
    """The intent of batch ``number``: its files, and the source's rules at that time (plain JSON).

    Attributes:
        run: the id of the run that has begun the batch, so that intents of two runs always differ; old intents lack it.
        definition: the source's ``definition`` at that time; old intents lack it.
    """

    number: int
    files: tuple[Fingerprint, ...]
    rules: Mapping[str, Any]
    run: str = ""
    definition: str = ""

    def to_bytes(self) -> bytes:
        files = [file.to_json() for file in self.files]
        return _dump(
            {
                "batch": self.number,
                "files": files,
                "rules": self.rules,
                "run": self.run,
                "definition": self.definition,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Intent:
        value = _load(data, path)
        try:
            files = tuple(Fingerprint.from_json(file) for file in value["files"])
            optional = (str(value.get(name, "")) for name in ("run", "definition"))
            return cls(int(value["batch"]), files, value["rules"], *optional)
        except (KeyError, TypeError, ValueError) as error:
            raise _invalid_entry(path) from error


@dataclass(frozen=True)
class Outcome:
    """The decision about a batch: to load it, or to give it up.

    Attributes:
        refused: by name, the reason why a file was refused.
        given_up: the reason why the batch is given up; None: the batch is loaded, without the refused files.
    """

    number: int
    refused: Mapping[str, str] = field(default_factory=dict)
    given_up: str | None = None

    def to_bytes(self) -> bytes:
        return _dump({"batch": self.number, "refused": dict(self.refused), "given_up": self.given_up})

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Outcome:
        value = _load(data, path)
        try:
            return cls(int(value["batch"]), dict(value["refused"]), value["given_up"])
        except (KeyError, TypeError, ValueError) as error:
            raise _invalid_entry(path) from error


class IntentLog:
    """The intents and outcomes of one source of one table."""

    def __init__(self, store: ObjectStore, source: str) -> None:
        if not _SOURCE.fullmatch(source):
            raise InvalidArgumentError(
                f"source is {source!r}; expected 1 to 128 letters, digits, '.', '_' or '-', the first of them a letter "
                "or digit",
                table=store.root,
                hint="Rename the source",
                code="DELTA_INVALID_SOURCE",
            )
        self.store = store
        self.source = source
        self.folder = f"_ingest/{source}"
        self.folds = Folds(store, self.folder)
        self._known_fold = -1  # the number of the newest fold that was read; unsettled batches come after this fold

    def read_after_fold(self) -> tuple[Fold, dict[int, Intent], dict[int, Outcome]]:
        """The newest fold, and the intents and outcomes of later batches by batch number, at one point in time."""
        fold, missing = self.folds.latest() or Fold(), None
        while True:
            try:
                intents, outcomes = self.read(fold.through)
            except ObjectNotFoundError as error:
                missing = error  # another run may have folded these batches meanwhile
            newer = self.folds.latest(fold.number)
            if newer is not None:
                fold, missing = newer, None
            elif missing is not None:
                raise missing
            else:
                self._known_fold = fold.number
                return fold, intents, outcomes

    def read(self, after: int = -1) -> tuple[dict[int, Intent], dict[int, Outcome]]:
        """The intents and outcomes of the batches after ``after``, by batch number."""
        intents: dict[int, Intent] = {}
        outcomes: dict[int, Outcome] = {}
        entries = [
            (meta.path, match)
            for meta in self.store.list_from(self.folder, f"{after + 1:020d}")
            if (match := _ENTRY.match(meta.path.rpartition("/")[2]))
        ]
        contents = map_in_threads(self.store.read, [path for path, _ in entries], _READERS)
        for (path, match), content in zip(entries, contents, strict=True):
            if match[2]:
                outcomes[int(match[1])] = Outcome.from_bytes(content, path)
            else:
                intents[int(match[1])] = Intent.from_bytes(content, path)
        return intents, outcomes

    def put(self, entry: Intent | Outcome) -> bool:
        """Put an entry if absent; False: the log has another entry of this name, from another process.

        Raises:
            ConcurrentTransactionError: another run has settled and folded the batch, so the name of its entry was free
                again. No run reads the new entry, and the next fold deletes it.
        """
        path = self.outcome_path(entry.number) if isinstance(entry, Outcome) else self._path(entry.number)
        data = entry.to_bytes()
        done = self.store.put_if_absent(path, data) or self._is_stored(path, data)
        self._check_not_folded(entry.number)
        return done

    def _is_stored(self, path: str, data: bytes) -> bool:
        """Whether the log has this entry. If the answer to a put is lost, the repeated put fails for this reason."""
        try:
            return self.store.read(path) == data
        except ObjectNotFoundError:
            return False

    def decide(self, outcome: Outcome) -> Outcome:
        """Put the outcome if the batch has none; returns the outcome that is in the log.

        Raises:
            ConcurrentTransactionError: as ``put``.
        """
        if self.put(outcome):
            return outcome
        path = self.outcome_path(outcome.number)
        try:
            return Outcome.from_bytes(self.store.read(path), path)
        except ObjectNotFoundError:
            self._check_not_folded(outcome.number)
            raise

    def _check_not_folded(self, number: int) -> None:
        fold = self.folds.latest(self._known_fold)
        if fold is not None and fold.through >= number:
            raise ConcurrentTransactionError(
                f"another run of source {self.source!r} has settled batch {number}",
                table=self.store.root,
                hint="Run one load of a source at a time",
            )

    def outcome_path(self, number: int) -> str:
        return self._path(number, ".outcome")

    def _path(self, number: int, suffix: str = "") -> str:
        return f"{self.folder}/{number:020d}{suffix}.json"

    def identity(self) -> str:
        """The unique id of this log, created by the first call of this method.

        A copy of the log has the same id. A new log has another id, so batch numbers of two logs are never confused.
        """
        self.store.put_if_absent(self._identity_path, _dump({"id": str(uuid.uuid4())}))
        return self._read_identity()

    def find_identity(self) -> str | None:
        """The unique id of this log; None: the log has no id yet."""
        try:
            return self._read_identity()
        except ObjectNotFoundError:
            return None

    def started(self) -> dict[int, int]:
        """When each intent was put, by batch number, in ms since the epoch. Folded batches are left out."""
        entries = ((_ENTRY.match(meta.path.rpartition("/")[2]), meta) for meta in self.store.list_from(self.folder))
        return {int(match[1]): meta.modified for match, meta in entries if match and not match[2]}

    @property
    def _identity_path(self) -> str:
        return f"{self.folder}/identity.json"

    def _read_identity(self) -> str:
        value = _load(self.store.read(self._identity_path), self._identity_path)
        try:
            return str(value["id"])
        except (KeyError, TypeError) as error:
            raise _invalid_entry(self._identity_path) from error

    def staging(self, number: int, run: str) -> str:
        """The path prefix of a batch's staged rows. It has the id of the run, so that two runs never write one file."""
        return f"{self.folder}/staging/{number:020d}-{run}-"

    def staged(self, settled: Container[int]) -> list[str]:
        """The paths of staged objects of settled batches: recorded keys, and rows that killed runs have left."""
        paths = (meta.path for meta in self.store.list_from(f"{self.folder}/staging"))
        numbers = ((path, path.rpartition("/")[2].partition("-")[0]) for path in paths)
        return [path for path, number in numbers if number.isdecimal() and int(number) in settled]


def _dump(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1).encode() + b"\n"


def _load(data: bytes, path: str) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise _invalid_entry(path) from error


def _invalid_entry(path: str) -> IngestError:
    return IngestError(
        f"{path} is not a valid entry of an intent log",
        hint="Restore it from a backup; without it the load does not know which files are in the table",
    )
