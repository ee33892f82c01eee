"""Load a source into a table in batches, each exactly once, even if a run is killed at any step.

The steps of batch N:

1. The intent is put if absent: the files, their digests, and the rules.
2. File tasks read the files, and write valid rows into data files of the table, and rejected rows into data files
   of the quarantine. No version refers to these files. Rows that only Spark can judge are staged first.
3. The rejected rows are committed to the quarantine table, with a ``txn`` action of version N in the same commit. The
   application id of this ``txn`` consists of the source and the id of the intent log. If the quarantine table already
   has this ``txn``, nothing is committed.
4. The outcome is put if absent: either the batch will be loaded, without the refused files, or it is given up, because
   nothing can be loaded. The outcome that is put first is final.
5. The valid rows are committed with ``txn(source, N)`` in the same commit. Now the batch is loaded.

If a run is killed before step 5, batch N is unsettled, and the next run redoes it with the intent's files and rules.
If two runs load batch N at the same time, only the run that commits first loads it. The other run raises
ConcurrentTransactionError.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from lakehouse_lib.arrow.values import numbers_of
from lakehouse_lib.errors import (
    ConcurrentTransactionError,
    IngestError,
    SchemaMismatchError,
    SourceRefusedError,
    UnsupportedFeatureError,
)
from lakehouse_lib.ingestion.append import plan_append, snapshot_if_any
from lakehouse_lib.ingestion.batches.batch import IN_PROCESS_BYTES, Batch
from lakehouse_lib.ingestion.batches.files import check_keys, needs_spark, suite_on_arrow
from lakehouse_lib.ingestion.batches.planning import FileStates, History, cut_batches, settled_states
from lakehouse_lib.ingestion.inference.new_columns import with_new_columns
from lakehouse_lib.ingestion.intent_log import Intent, IntentLog, Outcome
from lakehouse_lib.ingestion.landing import Fingerprint, LandedFile, SourceFile
from lakehouse_lib.ingestion.load_result import LoadResult
from lakehouse_lib.ingestion.quality import read_rules
from lakehouse_lib.ingestion.source import Source
from lakehouse_lib.ingestion.sources.source_format import ADD_COLUMNS, RESCUED
from lakehouse_lib.ingestion.state.source_state import SourceState
from lakehouse_lib.ingestion.table_rules import CONDITIONS, conditions_of
from lakehouse_lib.ingestion.tasks.parse import check_schema
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.progress import Counter, OnProgress
from lakehouse_lib.protocol.table_properties import TRANSACTION_RETENTION
from lakehouse_lib.schema import Schema
from lakehouse_lib.schema.rows.enforcement import is_computed
from lakehouse_lib.store import ObjectStore, open_store
from lakehouse_lib.threads import map_in_threads, processors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_READERS = 16


class Load:
    """One run over a source. The constructor makes all checks that do not need Spark, and writes nothing.

    Raises:
        LandingError, SchemaMismatchError, InvalidSchemaError, QualityError, InvalidArgumentError, IngestError: the
            source is not valid, does not fit the table, or its intent log contradicts the table.
        UnsupportedFeatureError: the table has a writer feature that this library does not support.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.landing = source.open_landing()
        self.store = open_store(source.table, source.storage_options.get(source.table))
        self._definition = source.definition  # as declared: a column that a file adds does not correct the source
        self._take_added_columns()
        check_schema(self.source.schema.to_arrow(), source.format)
        if source.suite is not None:
            read_rules(source.suite, self.source.schema.names)
        self.quarantine = open_store(source.quarantine, source.storage_options.get(source.quarantine))
        self.intents = IntentLog(self.store, source.name)
        for store in (self.store, self.quarantine):
            _check_transactions_stay(store, source.name)
        self._conditions = self._check_table()
        schema = self.source.schema
        check_keys(source.suite, schema, plan_append(self.store, schema, partition_by=source.partition_by))
        self.state = SourceState(source, self.landing, self.intents)
        self.files = self.state.look()
        self._entries: list[Mapping[str, Any]] = []
        self._refused: dict[str, str] = {}
        self._read_version: int | None = None

    @property
    def history(self) -> History:
        """The batches of the source before this run."""
        return self.state.history

    def nothing_to_do(self) -> LoadResult | None:
        """The result if no file is new and no batch is unsettled; else None."""
        if self.files.new.num_rows or self.history.unsettled is not None:
            return None
        self.state.fold()
        return self._result(self.files)

    def give_up(self) -> None:
        """Give up the unsettled batch: its files count as new, and its quarantined rows stay.

        A concurrent run is safe: either this outcome or that run's decision to load the batch is put first.

        Raises:
            IngestError: no batch is unsettled, or a run has decided to load it.
        """
        if self.history.unsettled is None:
            raise IngestError(f"source {self.source.name!r} has no unsettled batch", table=self.source.table)
        number = self.history.unsettled.number
        if self.intents.decide(Outcome(number, given_up="by hand")).given_up is None:
            raise IngestError(
                f"batch {number} of source {self.source.name!r} cannot be given up: a run has decided to load it, and "
                "may be committing it",
                table=self.source.table,
                hint="Run the load without --give-up; it finishes the batch. If it cannot, and no run is alive, delete "
                f"{self.intents.outcome_path(number)} and give the batch up then",
            )
        self.state.read()
        self.files = self.state.look()

    def needs_spark(self) -> bool:
        """Whether the run should have a Spark session: for rows that only Spark can judge or write, or a large batch.

        Smaller batches are loaded by this process in less time than a session takes to start.
        """
        new = cut_batches(self.files.new, self.source.files_per_batch, self.source.bytes_per_batch)
        past = [] if self.history.unsettled is None else [self.history.unsettled.files]
        batches: Iterator[Sequence[SourceFile | Fingerprint]] = chain(past, new)
        sizes = (sum(file.size for file in files) for files in batches)
        return max(sizes, default=0) > IN_PROCESS_BYTES or self._has_rules_of_spark()

    def run(self, spark: SparkSession | None = None, *, on_progress: OnProgress | None = None) -> LoadResult:
        """Load the unsettled batch and all new files. A batch that fails ends the run; earlier batches stay loaded.

        Args:
            spark: judges and writes the rows that need Spark, and runs the tasks of large batches; None: this process
                does everything.
            on_progress: called with the files, bytes and rows that were read; on a cluster, only when a task ends.

        Raises:
            UnsupportedFeatureError: the rows need Spark, and ``spark`` is None.
            ConcurrentTransactionError: another run has begun, loaded or given up the batch.
            QualityError, SourceChangedError, CommitFailedError, CommitUnknownError: as ``Batch.load``.
        """
        judge = None
        if spark is not None:
            from lakehouse_lib.ingestion.spark_judge import SparkJudge

            judge = SparkJudge(spark)
        elif self._has_rules_of_spark():
            raise UnsupportedFeatureError(
                f"source {self.source.name!r} has rules that only Spark can evaluate",
                table=self.source.table,
                hint="Load it with a Spark session",
            )
        self.store.delete_many(self.intents.staged(self.history.settled))
        self._read_version = _version(snapshot_if_any(self.store))
        counter = None if on_progress is None else self._counter(on_progress)

        def load(intent: Intent, *, redo: bool) -> bool:
            result = Batch(intent, self.source, self.intents, judge, counter).load(redo=redo)
            self._refused.update(result.refused)
            if result.entry is not None:
                self._entries.append(result.entry)
            return not result.waiting

        if self.history.unsettled is not None:
            load(self.history.unsettled, redo=True)
            self.state.read()
            self.store.delete_many(self.intents.staged(self.history.settled))  # staged by the killed run
            self.files = settled_states(self.files, self.state.look())
        files = self.files
        number, run = self.history.next_number, uuid.uuid4().hex
        waiting = list(files.waiting)
        suite = self.source.suite
        if files.new.num_rows and judge is not None and suite and suite_on_arrow(suite, self.source.schema) is None:
            judge.gate(self.source.schema, self.source.suite)  # an invalid suite fails before an intent is put
        for batch in cut_batches(files.new, self.source.files_per_batch, self.source.bytes_per_batch):
            fingerprints = self._fingerprints(batch, self._refused)
            read = {fingerprint.name for fingerprint in fingerprints} | self._refused.keys()
            waiting += [file.name for file in batch if file.name not in read]
            if not fingerprints:
                continue
            rules = self._rules(fingerprints)
            intent = Intent(number, fingerprints, rules, run, self._definition)
            if not self.intents.put(intent):
                raise ConcurrentTransactionError(
                    f"another run of source {self.source.name!r} has begun batch {number}",
                    table=self.source.table,
                    hint="Let it finish; run one load of a source at a time",
                )
            if not load(intent, redo=False):
                waiting += [fingerprint.name for fingerprint in fingerprints]
            number += 1
            self.state.settle(len(fingerprints))
        if counter is not None:
            counter.finish()
        self.state.fold()
        return self._result_of_run(self._result(files), waiting)

    def partial_result(self) -> LoadResult | None:
        """The result of the batches that this run has loaded before it failed; None: it has loaded none."""
        return self._result_of_run(self._result(self.files), ()) if self._entries else None

    def _result_of_run(self, result: LoadResult, waiting: Sequence[str]) -> LoadResult:
        """The result with the batches of this run."""
        versions = [entry["version"] for entry in self._entries if entry["version"] is not None]
        return replace(
            result,
            read_version=self._read_version,
            version=versions[-1] if versions else None,
            batches=tuple(self._entries),
            waiting=tuple(sorted(waiting)),
            refused=dict(self._refused),
            earlier_refusals={
                name: reason for name, reason in result.earlier_refusals.items() if name not in self._refused
            },
        )

    def _counter(self, on_progress: OnProgress) -> Counter:
        """A counter of the files of all batches, which calls ``on_progress``."""
        past = [] if self.history.unsettled is None else [file.size for file in self.history.unsettled.files]
        sizes = [np.array(past, np.int64), numbers_of(self.files.new["size"], np.int64)]
        return Counter("files", on_progress, np.concatenate(sizes))

    def _result(self, files: FileStates) -> LoadResult:
        """The result of a run that loads nothing."""
        return LoadResult(
            table=self.source.table,
            read_version=_version(snapshot_if_any(self.store)),
            version=None,
            batches=(),
            waiting=tuple(files.waiting),
            refused={},
            earlier_refusals=dict(files.refused),
            changed=dict(files.changed),
            quarantine=self.source.quarantine,
            quarantine_version=_version(snapshot_if_any(self.quarantine)),
        )

    def _has_rules_of_spark(self) -> bool:
        """Whether only Spark can judge the rows, or write them into the table."""
        plan = plan_append(self.store, self.source.schema, partition_by=self.source.partition_by)
        rules = [(self.source.suite, self.source.schema)]
        if self.history.unsettled is not None:
            past = self.history.unsettled.rules
            rules.append((past["suite"], Schema.from_json(json.dumps(past["schema"]))))
        return any(needs_spark(suite, schema, plan) for suite, schema in rules)

    def _take_added_columns(self) -> Sequence[str]:
        """Add the columns that earlier batches have added to the table to the source's schema.

        Returns:
            the names of all columns of the table.
        """
        snapshot = snapshot_if_any(self.store) if self.source.format.evolution == ADD_COLUMNS else None
        if snapshot is None:
            return ()
        self.source = self.source.with_columns_of(snapshot.schema)
        return snapshot.schema.names

    def _rules(self, files: Sequence[Fingerprint]) -> dict[str, Any]:
        """The rules of a batch of these files. Their schema includes the columns that the batch adds to the table."""
        if self.source.format.evolution != ADD_COLUMNS:
            return {**self.source.rules(), CONDITIONS: self._conditions}
        table_columns = self._take_added_columns()
        landed = [LandedFile(self.landing, file) for file in files]
        schema = with_new_columns(landed, self.source.format, self.source.schema, table_columns)
        return {**replace(self.source, schema=schema).rules(), CONDITIONS: self._conditions}

    def _check_table(self) -> dict[str, str]:
        """Check that the source fits the table, and return the table's conditions for rows."""
        snapshot = snapshot_if_any(self.store)
        if snapshot is None:
            return {}
        snapshot.check_writable()
        columns = {column.name: (str(column.type), column.nullable) for column in snapshot.schema.fields}
        declared = {column.name: (str(column.type), column.nullable) for column in self.source.schema.fields}
        computed = {column.name for column in snapshot.schema.fields if is_computed(column)}
        wrong = [
            f"{name}: the table has {_shown(columns.get(name))}, the schema file {_shown(declared.get(name))}"
            for name in {**columns, **declared}
            if columns.get(name) != declared.get(name)
            and (name in declared or name not in computed)
            and (name != RESCUED or name in columns)  # the first load with this column adds it
        ]
        if wrong:
            raise SchemaMismatchError(
                f"the schema file does not fit the table: {'; '.join(wrong)}",
                table=self.source.table,
                version=snapshot.version,
                hint="Correct the schema file, or change the table first",
            )
        return conditions_of(snapshot, self.source.schema)

    def _fingerprints(self, files: Sequence[SourceFile], refused: dict[str, str]) -> tuple[Fingerprint, ...]:
        """The fingerprints of the files that have not changed since they were listed.

        A file that cannot be read is added to ``refused``. No intent records this file, so the next run tries it again.
        """

        def fingerprint(file: SourceFile) -> Fingerprint | str | None:
            try:
                return self.landing.fingerprint(file)
            except SourceRefusedError as error:
                return error.description

        fingerprints = []
        threads = _READERS if self.landing.is_remote else processors()
        for file, answer in zip(files, map_in_threads(fingerprint, files, threads), strict=True):
            if isinstance(answer, str):
                refused[file.name] = answer
            elif answer is not None:
                fingerprints.append(answer)
        return tuple(fingerprints)


def _check_transactions_stay(store: ObjectStore, source: str) -> None:
    """Refuse a table whose ``txn`` actions expire, because only a ``txn`` action says that a batch was committed.

    Raises:
        IngestError: the table has ``delta.setTransactionRetentionDuration``.
    """
    snapshot = snapshot_if_any(store)
    if snapshot is not None and TRANSACTION_RETENTION.key in snapshot.metadata.configuration:
        value = snapshot.metadata.configuration[TRANSACTION_RETENTION.key]
        raise IngestError(
            f"the table has {TRANSACTION_RETENTION.key} = {excerpt(value)}, so the record of the last batch of source "
            f"{source!r} expires; expected a table without it",
            table=store.root,
            version=snapshot.version,
            hint="Unset the property before the record expires; after that, the next run would load the batch again",
        )


def _version(snapshot: Any) -> int | None:
    return None if snapshot is None else int(snapshot.version)


def _shown(column: tuple[str, bool] | None) -> str:
    return "no such column" if column is None else column[0] + ("" if column[1] else " not null")
