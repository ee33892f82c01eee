"""The intent log: which files are batch N, decided once and written down before anything is loaded.

Beside the table, under ``_ingest/SOURCE/``:

- ``N.json`` (20 digits): batch N. It names the files with size, time and digest, and holds the rules they are judged by
  (format, schema, suite), so that a redo after a crash comes to the same rows.
- ``N.outcome.json``: files of the batch that were refused, or why the whole batch was given up. A batch that loaded all
  its files has none: the table's ``txn(SOURCE, N)`` says that it is in.
- ``staging/N-*``: parsed rows on their way; nothing in there outlives its batch.

Both JSON objects are put if absent, so two processes cannot decide differently. The table itself keeps one ``txn`` a
source however many files have come.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from lakehouse_lib.errors import IngestError, InvalidArgumentError
from lakehouse_lib.ingestion.landing import Fingerprint
from lakehouse_lib.store.base import ObjectStore

_READERS = 16
_ENTRY = re.compile(r"^(\d{20})(\.outcome)?\.json$")
_SOURCE = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")


@dataclass(frozen=True)
class Intent:
    """Batch ``number`` of a source: its files, and the rules in force when it was made (``rules``, plain JSON)."""

    number: int
    files: tuple[Fingerprint, ...]
    rules: Mapping[str, Any]

    def to_bytes(self) -> bytes:
        return _dump({"batch": self.number, "files": [file.to_json() for file in self.files], "rules": self.rules})

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Intent:
        value = _load(data, path)
        try:
            return cls(
                int(value["batch"]), tuple(Fingerprint.from_json(file) for file in value["files"]), value["rules"]
            )
        except (KeyError, TypeError, ValueError) as error:
            raise _torn(path) from error


@dataclass(frozen=True)
class Outcome:
    """What became of a batch besides being loaded.

    Attributes:
        refused: file name -> the message it was refused with.
        given_up: why nothing of the batch was loaded and nothing ever will be; None when its other files were.
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
            raise _torn(path) from error


class IntentLog:
    """The intents and outcomes of one source of one table."""

    def __init__(self, store: ObjectStore, source: str) -> None:
        if not _SOURCE.match(source):
            raise InvalidArgumentError(
                f"{source!r} is no source name",
                table=store.root,
                hint="Use 1 to 128 letters, digits, '.', '_' or '-', starting with a letter or digit",
            )
        self.store = store
        self.source = source
        self.folder = f"_ingest/{source}"

    def read(self) -> tuple[dict[int, Intent], dict[int, Outcome]]:
        """All intents and outcomes by batch number."""
        intents: dict[int, Intent] = {}
        outcomes: dict[int, Outcome] = {}
        entries = [
            (meta.path, match)
            for meta in self.store.list_from(self.folder)
            if (match := _ENTRY.match(meta.path.rpartition("/")[2]))
        ]
        with ThreadPoolExecutor(_READERS) as readers:
            contents = readers.map(lambda entry: self.store.read(entry[0]), entries)
            for (path, match), content in zip(entries, contents, strict=True):
                if match[2]:
                    outcomes[int(match[1])] = Outcome.from_bytes(content, path)
                else:
                    intents[int(match[1])] = Intent.from_bytes(content, path)
        return intents, outcomes

    def put(self, entry: Intent | Outcome) -> bool:
        """Write an entry down; False when another process has written that entry."""
        suffix = ".outcome" if isinstance(entry, Outcome) else ""
        return self.store.put_if_absent(f"{self.folder}/{entry.number:020d}{suffix}.json", entry.to_bytes())

    def staging(self, number: int, run: str) -> str:
        """What the paths of a batch's parsed rows start with; ``run`` is one process' own, so none share a file."""
        return f"{self.folder}/staging/{number:020d}-{run}-"

    def staged(self, settled: Container[int]) -> list[str]:
        """Staged objects of settled batches: what dead runs left behind."""
        found = (meta.path for meta in self.store.list_from(f"{self.folder}/staging"))
        return [path for path in found if int(path.rpartition("/")[2].partition("-")[0]) in settled]


def _dump(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1).encode() + b"\n"


def _load(data: bytes, path: str) -> Any:
    try:
        return json.loads(data)
    except ValueError as error:
        raise _torn(path) from error


def _torn(path: str) -> IngestError:
    return IngestError(
        f"{path} is not an entry of an intent log",
        hint="Restore it from a backup; without it the load cannot tell which files are in the table",
    )
