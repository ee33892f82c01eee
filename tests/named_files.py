"""A source whose files have one row each, their name, and a load of it without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa

from lakehouse_lib import CommitProperties, Transaction, write_deltalake
from lakehouse_lib.errors import ConcurrentTransactionError
from lakehouse_lib.ingestion.batches.planning import cut_batches
from lakehouse_lib.ingestion.intent_log import Intent, IntentLog, Outcome
from lakehouse_lib.ingestion.source import Source
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.state.source_state import SourceState
from lakehouse_lib.schema import Field, Schema
from lakehouse_lib.store import ObjectStore, open_store

SCHEMA = Schema([Field("name", "string")])


class NamedFiles:
    """A landing folder and a table; a file whose name has an ``x`` is rejected.

    Args:
        folder: a path, or a location in a store, of both.
        storage_options: of both.
        options: of the source.
    """

    def __init__(self, folder: Path | str, storage_options: dict[str, str] | None = None, **options: Any) -> None:
        table, landing = f"{folder}/table", f"{folder}/landing"
        by_location = {location: storage_options for location in (table, landing) if storage_options}
        source = Source(table, landing, "erp", SourceFormat("csv"), SCHEMA, None, "", storage_options=by_location)
        self.source = replace(source, **options)
        self.options = storage_options
        open_store(landing, storage_options).make_root()

    def land(self, *names: str, content: str | None = None) -> None:
        store = open_store(self.source.landing, self.options)
        for name in names:
            store.put(name, (content or name).encode())

    def state(self, store: ObjectStore | None = None) -> tuple[SourceState, IntentLog]:
        intents = IntentLog(store or open_store(self.source.table, self.options), "erp")
        return SourceState(self.source, self.source.open_landing(), intents), intents

    def run(self, store: ObjectStore | None = None, *, give_up: bool = False) -> None:
        """Load as ``Load.run`` does, two files a batch.

        Args:
            store: of the table, for the intent log.
            give_up: give up an unsettled batch instead of loading it.
        """
        state, intents = self.state(store)
        if state.history.unsettled is not None:
            if give_up:
                intents.decide(Outcome(state.history.unsettled.number, given_up="by hand"))
            else:
                self._load(intents, state.history.unsettled)
            state.read()
        landing = self.source.open_landing()
        number = state.history.next_number
        for files in cut_batches(state.look().new, 2):
            candidates = [landing.fingerprint(file) for file in files]
            fingerprints = tuple(file for file in candidates if file is not None)
            intent = Intent(number, fingerprints, {}, definition=self.source.definition)
            if not intents.put(intent):
                raise ConcurrentTransactionError("another run has begun the batch")
            self._load(intents, intent)
            number += 1
            state.settle(len(intent.files))
        state.fold()

    def _load(self, intents: IntentLog, intent: Intent) -> None:
        refused = {file.name: "bad" for file in intent.files if "x" in file.name}
        rows = [file.name for file in intent.files if file.name not in refused]
        if not rows:
            intents.decide(Outcome(intent.number, refused, "every file was rejected"))
            return
        if intents.decide(Outcome(intent.number, refused)).given_up is not None:
            raise ConcurrentTransactionError("the batch was given up")
        properties = CommitProperties(app_transactions=[Transaction("erp", intent.number)])
        data = pa.table({"name": rows}, SCHEMA.to_arrow())
        table, options = self.source.table, self.options
        write_deltalake(table, data, mode="append", commit_properties=properties, storage_options=options)

    def loaded(self) -> list[str]:
        """The names of the loaded files, as delta-rs reads them."""
        if not deltalake.DeltaTable.is_deltatable(self.source.table, self.options):
            return []
        table = deltalake.DeltaTable(self.source.table, storage_options=self.options)
        return sorted(table.to_pyarrow_table()["name"].to_pylist())

    def objects(self) -> list[str]:
        """The objects of the intent log."""
        return sorted(meta.path for meta in open_store(self.source.table, self.options).walk("_ingest/erp"))
