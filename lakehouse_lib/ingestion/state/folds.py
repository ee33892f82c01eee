"""Folds: the files of settled batches move from the intent log into segments, so that the log stays short.

Beside the intent log, under ``_ingest/SOURCE/``:

- ``folds/K.json`` (20 digits): fold K: the number of the last batch that is folded, and all segments. It is put if
  absent and made from fold K-1. So folds are one sequence, and the fold with the highest number is valid.
- ``settled/K-*.parquet``: segments that fold K has written.

A fold is made in this order, and may be killed after any step:

1. Segments are written. Nothing refers to them.
2. The fold is put. From now on, readers read the files of these batches from the segments.
3. The run checks that this fold is the newest. If it is not, its name was free only because older folds were deleted.
   Then the run stops here.
4. The run deletes the intents and outcomes of folded batches, the folds before the last two, and the segments to which
   neither of the last two folds refers. The last fold but one stays, because other runs may be reading it.

After step 4, the names of the deleted intents are free again. A run that has read an older fold could put an entry
under such a name. ``IntentLog`` lists the folds after each put, and refuses such an entry.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from lakehouse_lib.errors import IngestError, ObjectNotFoundError
from lakehouse_lib.ingestion.state.settled_files import Segment, newest, read_segment, segment_bytes
from lakehouse_lib.store import ObjectStore

# A segment is merged with newer files until it is this many times larger. So there are few segments: about log4 of the
# number of files, and one for each _MOST_ROWS.
_RATIO = 4
_MOST_ROWS = 1 << 20


@dataclass(frozen=True)
class Watermark:
    """A name up to which all listed files are settled, for sources with ``order`` ``by_name``.

    Attributes:
        landing, pattern: those of the source at that time. If they have changed, files before the name may be new.
    """

    name: str
    landing: str
    pattern: str | None

    def to_json(self) -> dict[str, object]:
        return {"name": self.name, "landing": self.landing, "pattern": self.pattern}


@dataclass(frozen=True)
class Fold:
    """The folded batches of a source.

    Attributes:
        number: the number of the fold; -1: nothing is folded yet.
        through: the last batch that is folded; -1: no batch is.
        loaded: the last folded batch that was loaded; None: none was.
        segments: from the oldest batches to the newest.
        watermark: the name after which a listing begins; None: a listing begins with the first name.
    """

    number: int = -1
    through: int = -1
    loaded: int | None = None
    segments: tuple[Segment, ...] = ()
    watermark: Watermark | None = None

    def to_bytes(self) -> bytes:
        value = {
            "fold": self.number,
            "through": self.through,
            "loaded": self.loaded,
            "segments": [segment.to_json() for segment in self.segments],
            "watermark": None if self.watermark is None else self.watermark.to_json(),
        }
        return json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1).encode() + b"\n"

    @classmethod
    def from_bytes(cls, data: bytes, path: str) -> Fold:
        try:
            value: Mapping[str, Any] = json.loads(data)
            watermark = value["watermark"]
            return cls(
                int(value["fold"]),
                int(value["through"]),
                None if value["loaded"] is None else int(value["loaded"]),
                tuple(Segment.from_json(segment) for segment in value["segments"]),
                None if watermark is None else Watermark(**watermark),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise IngestError(
                f"{path} is not a valid fold of an intent log",
                hint="Restore it from a backup; without it the load does not know which files are in the table",
            ) from error


class Folds:
    """The folds of one source of one table.

    Args:
        folder: the folder of the source's intent log.
    """

    def __init__(self, store: ObjectStore, folder: str) -> None:
        self._store = store
        self._folder = folder

    def latest(self, after: int = -1) -> Fold | None:
        """The newest fold with a number above ``after``; None if there is none."""
        while True:
            numbers = list(self._numbers(after + 1))
            if not numbers:
                return None
            path = self._path(numbers[-1])
            try:
                return Fold.from_bytes(self._store.read(path), path)
            except ObjectNotFoundError:  # deleted by a run that has put newer folds meanwhile
                after = numbers[-1]

    def add(
        self, base: Fold, rows: pa.Table, *, through: int, loaded: int | None, watermark: Watermark | None
    ) -> Fold | None:
        """Fold the batches up to ``through`` and clean up; None if another run has folded meanwhile.

        Args:
            base: the newest fold.
            rows: the files of the batches after those of ``base``, as ``SETTLED``.
        """
        number = base.number + 1
        try:
            segments = self._write(number, base.segments, newest([rows]))
        except IngestError:
            if self.latest(base.number) is None:
                raise
            return None  # the other run has deleted segments of the base
        fold = Fold(number, through, loaded, segments, watermark)
        if not self._store.put_if_absent(self._path(number), fold.to_bytes()) and not self._is_stored(fold):
            return None  # the next fold deletes our segments
        if any(True for _ in self._numbers(number + 1)):
            return None
        self._clean_up(fold, base)
        return fold

    def _is_stored(self, fold: Fold) -> bool:
        """Whether this fold was put. If an answer is lost, the repeated put fails because the first try has put it."""
        try:
            return self._store.read(self._path(fold.number)) == fold.to_bytes()
        except ObjectNotFoundError:
            return False

    def _write(self, number: int, segments: Sequence[Segment], rows: pa.Table) -> tuple[Segment, ...]:
        """The segments after these files are added; the newest segments are merged with them if they are small."""
        if not rows.num_rows:
            return tuple(segments)
        older = list(segments)
        while older and older[-1].rows <= _RATIO * rows.num_rows and older[-1].rows + rows.num_rows <= _MOST_ROWS:
            rows = newest([read_segment(self._store, older.pop()), rows])
        segment = Segment(f"{self._folder}/settled/{number:020d}-{uuid.uuid4().hex}.parquet", rows.num_rows)
        self._store.put(segment.path, segment_bytes(rows))
        return (*older, segment)

    def _clean_up(self, fold: Fold, base: Fold) -> None:
        """Delete the entries, segments and folds that neither ``fold``, the newest, nor ``base`` before it needs."""
        self._store.delete_many(self._entries(fold.through))
        needed = {segment.path for segment in (*fold.segments, *base.segments)}
        # Segments with the next number stay: another run may be making the next fold from them.
        stored = self._store.list_from(f"{self._folder}/settled")
        written = (meta.path for meta in stored if meta.path.rpartition("/")[2] < f"{fold.number + 1:020d}")
        self._store.delete_many([path for path in written if path not in needed])
        self._store.delete_many([self._path(number) for number in self._numbers(0) if number < base.number])

    def _entries(self, through: int) -> Iterator[str]:
        """The intents and outcomes of the batches up to ``through``."""
        for meta in self._store.list_from(self._folder):
            number = meta.path.rpartition("/")[2].partition(".")[0]
            if not number.isdecimal() or int(number) > through:
                return
            yield meta.path

    def _numbers(self, first: int) -> Iterator[int]:
        for meta in self._store.list_from(f"{self._folder}/folds", f"{first:020d}"):
            number = meta.path.rpartition("/")[2].removesuffix(".json")
            if number.isdecimal():
                yield int(number)

    def _path(self, number: int) -> str:
        return f"{self._folder}/folds/{number:020d}.json"
