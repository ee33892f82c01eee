"""The state of a source: its settled batches, and the files of its landing folder by state."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import strings
from lakehouse_lib.ingestion.append import last_batch, snapshot_if_any
from lakehouse_lib.ingestion.batches.planning import FileStates, History, history, sort_files, unite_states
from lakehouse_lib.ingestion.intent_log import IntentLog
from lakehouse_lib.ingestion.landing import Landing
from lakehouse_lib.ingestion.source import BY_NAME, Source
from lakehouse_lib.ingestion.state.folds import Watermark
from lakehouse_lib.ingestion.state.settled_files import SettledFiles
from lakehouse_lib.log import clock

# Batches are folded when this number of them is settled since the last fold, or when they have this number of files.
_MOST_BATCHES = 64
_MOST_FILES = 20_000


class SourceState:
    """The state of a source, as it was when ``read`` was called last.

    Attributes:
        history: the batches of the source.
    """

    history: History

    def __init__(self, source: Source, landing: Landing, intents: IntentLog) -> None:
        self._source, self._landing, self._intents = source, landing, intents
        self._settled_since = (0, 0)  # batches and files since ``read``
        self._listed = strings([])  # the names of the new and the waiting files of the last listing
        self._last_listed = ""
        self.read()

    def read(self) -> History:
        """Read the batches again.

        Raises:
            IngestError: the intent log and the table contradict each other.
        """
        before = None
        while True:
            # Read the intents before the table: else batches that another run commits in between would look unsettled.
            fold, intents, outcomes = self._intents.read_after_fold()
            newest = last_batch(snapshot_if_any(self._intents.store), self._source.name)
            # Another run may have put an intent and committed its batch in between.
            if newest is None or newest <= fold.through or newest in intents or (fold, intents) == before:
                break
            before = (fold, intents)
        self.history = history(fold, intents, outcomes, newest, table=self._source.table, source=self._source.name)
        self._settled_since = (0, 0)
        return self.history

    def look(self) -> FileStates:
        """List the files of the landing folder by state. Only files that are not settled need memory.

        Raises:
            LandingError: the landing folder cannot be used.
        """
        self._last_listed = self._after()
        parts = []
        with self._settled_files() as settled:
            for files in self._landing.files(self._last_listed):
                if not files.num_rows:
                    continue
                self._last_listed = files["name"][-1].as_py()
                parts.append(
                    sort_files(
                        files,
                        settled.lookup(files["name"].combine_chunks()),
                        now=clock.now(),
                        settle=int(self._source.settle_seconds * 1000),
                        digest=self._landing.fingerprint,
                        definition=self._source.definition,
                    )
                )
        files = unite_states(parts)
        self._listed = pa.concat_arrays([files.new["name"].combine_chunks(), strings(files.waiting)])
        return files

    def settle(self, files: int) -> None:
        """Count a batch that this run has settled, and fold the batches if there are many.

        Args:
            files: the number of files of the batch.
        """
        batches, earlier_files = self._settled_since
        self._settled_since = (batches + 1, earlier_files + files)
        if self._is_long():
            self.read()
            self.fold()

    def fold(self) -> None:
        """Fold the settled batches if there are many. Another run may do it at the same time."""
        history = self.history
        through = history.settled.stop - 1
        if not self._is_long() or through <= history.fold.through:
            return
        fold = self._intents.folds.add(
            history.fold, history.recent, through=through, loaded=history.loaded, watermark=self._watermark()
        )
        if fold is not None:
            self.read()

    def _is_long(self) -> bool:
        batches, files = self._settled_since
        batches += self.history.settled.stop - 1 - self.history.fold.through
        return batches >= _MOST_BATCHES or files + self.history.recent.num_rows >= _MOST_FILES

    def _settled_files(self) -> SettledFiles:
        return SettledFiles(self._intents.store, self.history.fold.segments, self.history.recent)

    def _after(self) -> str:
        """The name after which a listing begins; "" for the first name."""
        watermark = self.history.fold.watermark
        here = (self._source.landing, self._source.pattern)
        if self._source.order != BY_NAME or watermark is None or (watermark.landing, watermark.pattern) != here:
            return ""
        return watermark.name

    def _watermark(self) -> Watermark | None:
        """The name up to which every listed file is settled now."""
        if self._source.order != BY_NAME:
            return None
        with self._settled_files() as settled:
            is_settled = pc.is_valid(settled.lookup(self._listed)["batch"])
        unsettled = self._listed.filter(pc.invert(is_settled))
        name = self._last_listed
        if len(unsettled):
            before = self._listed.filter(pc.less(self._listed, pc.min(unsettled)))
            name = pc.max(before).as_py() if len(before) else self._after()
        return Watermark(name, self._source.landing, self._source.pattern)
