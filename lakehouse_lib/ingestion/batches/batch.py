"""Load one batch, from its intent to its commit.

Every step up to the commit can be repeated: no version refers to the files that a run has written, the quarantine has a
``txn`` of the batch, and a decision to load is final.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.errors import (
    CommitFailedError,
    CommitUnknownError,
    ConcurrentTransactionError,
    ConstraintViolatedError,
    DeltaError,
    QualityError,
    SourceChangedError,
    SourceRefusedError,
)
from lakehouse_lib.expressions import Predicate
from lakehouse_lib.ingestion.append import commit_once, last_batch, plan_append, rejects_application, snapshot_if_any
from lakehouse_lib.ingestion.batches.files import BatchFiles, BatchWriter
from lakehouse_lib.ingestion.batches.keys import BatchKeys, RecordedRounds, Round
from lakehouse_lib.ingestion.batches.reports import RULES_BROKEN
from lakehouse_lib.ingestion.intent_log import Intent, IntentLog, Outcome
from lakehouse_lib.ingestion.landing import Fingerprint
from lakehouse_lib.ingestion.quarantine import quarantine_schema
from lakehouse_lib.ingestion.source import Source
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.table_rules import CONDITIONS, rules_of
from lakehouse_lib.ingestion.tasks.file_task import TaskResult
from lakehouse_lib.operations.files import discard
from lakehouse_lib.operations.write.planned_write import PlannedWrite
from lakehouse_lib.progress import Counter
from lakehouse_lib.schema import Schema
from lakehouse_lib.store import ObjectStore, open_store
from lakehouse_lib.threads import processors

if TYPE_CHECKING:
    from lakehouse_lib.engine.base import Engine
    from lakehouse_lib.ingestion.spark_judge import SparkJudge

log = logging.getLogger(__name__)

#: A batch of at most this many bytes is loaded by threads of this process, even if there is a Spark session. This takes
#: about as long as the start of a session and of its workers.
IN_PROCESS_BYTES = processors() * (2 << 30)
#: The largest number of times that a batch is judged because concurrent commits may have added some of its keys.
_MOST_ATTEMPTS = 100


@dataclass(frozen=True)
class BatchResult:
    """The result of a batch.

    Attributes:
        entry: the batch's entry in ``LoadResult.batches``; None if nothing was loaded.
        refused: by file name, the reason why it was refused.
        waiting: whether a file changed while it was read. If so, the batch was given up, and its files count as new.
    """

    entry: Mapping[str, Any] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    waiting: bool = False


class Batch:
    """The batch ``intent.number``, loaded by the rules in its intent, which may differ from the source's rules now."""

    def __init__(
        self,
        intent: Intent,
        source: Source,
        intents: IntentLog,
        judge: SparkJudge | None = None,
        counter: Counter | None = None,
    ) -> None:
        """Prepare the batch.

        Args:
            judge: judges and writes the rows that need Spark, and runs large batches; None: without a Spark session.
            counter: counts the files and rows that are read; None: the load has no observer.
        """
        self.intent = intent
        self.source = source
        self.intents = intents
        self.store: ObjectStore = intents.store
        self.landing = source.open_landing()
        self.quarantine = open_store(source.quarantine, source.storage_options.get(source.quarantine))
        self.schema = Schema.from_json(json.dumps(intent.rules["schema"]))
        self.partition_by: Sequence[str] = intent.rules.get("partition_by", source.partition_by)  # old intents lack it
        self.judge = judge
        self.counter = counter
        self.engine: Engine = ArrowEngine()
        if judge is not None and sum(file.size for file in intent.files) > IN_PROCESS_BYTES:
            self.engine = judge.engine

    def load(self, *, redo: bool) -> BatchResult:
        """Load the batch.

        Args:
            redo: whether a killed run has begun the batch.

        Raises:
            SourceChangedError: the files of a batch to redo have changed.
            QualityError: a table-level rule, or a rule of the table that no task can judge, is broken; nothing of the
                batch is loaded.
            ConcurrentTransactionError: another run has loaded the batch or given it up.
            CommitFailedError: a concurrent commit conflicts with the batch.
            CommitUnknownError: the store gave no answer to the commit, so the batch may be loaded.
            UnsupportedFeatureError: the rows need Spark, and ``judge`` is None.
        """
        files = self._check_files() if redo else self.intent.files
        staging = self.intents.staging(self.intent.number, uuid.uuid4().hex[:12])
        try:
            return self._load(files, staging, redo=redo)
        except (ConcurrentTransactionError, CommitUnknownError):
            raise
        except Exception as error:
            # Another run that commits the batch deletes all staged files of the batch, also those of this run.
            loaded = None
            with suppress(DeltaError):  # the caller reports the error that led here
                loaded = last_batch(snapshot_if_any(self.store), self.source.name)
            if loaded is not None and loaded >= self.intent.number:
                raise self._concurrent_run_error("has loaded") from error
            raise
        finally:
            with suppress(DeltaError):  # a later run deletes the staged rows of settled batches
                self._unstage(staging)

    def _load(self, files: Sequence[Fingerprint], staging: str, *, redo: bool) -> BatchResult:
        plan = self._plan()
        quarantine = plan_append(self.quarantine, self._quarantine_schema)
        writer = BatchWriter(
            self.source,
            self.intent.number,
            self.schema,
            self.intent.rules["suite"],
            rules_of(self.intent.rules.get(CONDITIONS, {}), self.schema, self.source.table),
            SourceFormat.from_json(self.intent.rules["format"]),
            plan,
            quarantine,
            self.engine,
            self.judge,
            self.counter,
        )
        try:
            written = writer.read(files, staging)
        except ConstraintViolatedError as error:
            raise self._not_loaded(error) from error
        try:
            result = self._end_early(written, redo=redo)
            if result is not None:
                written.discard()
                return result
            written = self._judged(writer, written)
        except BaseException:
            written.discard()
            raise
        if written.keys is not None:
            return BatchResult(self._load_unique(writer, written, written.keys), written.refused)
        try:
            self._quarantine(quarantine, written.quarantined_files)
        except BaseException:
            discard(self.store, written.valid_files)
            raise
        return BatchResult(self._commit(plan, written), written.refused)

    def _load_unique(self, writer: BatchWriter, written: BatchFiles, keys: BatchKeys) -> dict[str, Any]:
        """Load the rows whose keys are not in the table; returns the batch's entry.

        Keys are refused in rounds (``batches/keys.py``), and the rows of a round are committed to the quarantine once.
        If a concurrent commit may have added keys of the batch, the batch is judged again, by the new version of the
        table. Keys that are refused only then are a further round.
        """
        recorded = RecordedRounds(
            self.store, self.intents.staging(self.intent.number, "keys"), keys.suite, self.schema.to_arrow()
        )
        rejected, rounds_done = written.rejected, 0
        for attempt in range(1, _MOST_ATTEMPTS + 1):
            plan = writer.plan
            try:
                rounds = self._rounds(recorded, keys, plan)
                files_of_rounds = [
                    writer.settled(written, rounds, rejects=number, loads=False)
                    for number in range(rounds_done, len(rounds))
                ]
            except BaseException:
                if not rounds_done:
                    written.discard()
                raise
            for number, files in enumerate(files_of_rounds, start=rounds_done):
                rejected += files.rejected
                parts = [files.quarantined_files] if number else [written.quarantined_files, files.quarantined_files]
                self._quarantine(writer.quarantine, pa.concat_tables(parts), number)
            rounds_done = len(rounds)
            loaded = writer.settled(written, rounds, rejects=None)
            loaded = replace(
                loaded,
                results=[*loaded.results, TaskResult(rejected=rejected, refused=written.refused)],
                broken={**written.broken, **keys.broken(rounds)},
            )
            try:
                return self._commit(plan, loaded, reads=keys.reads(plan.snapshot))
            except ConcurrentTransactionError:
                raise
            except CommitFailedError:
                if attempt == _MOST_ATTEMPTS:
                    raise
            writer = replace(writer, plan=self._plan())
            writer.check_keys()
        raise AssertionError("the last attempt returns or raises")

    def _rounds(self, recorded: RecordedRounds, keys: BatchKeys, plan: PlannedWrite) -> list[Round]:
        """Record the rounds that the read version of ``plan`` requires; returns all recorded rounds."""
        last = last_batch(plan.snapshot, self.source.name)
        if last is not None and last >= self.intent.number:
            raise self._concurrent_run_error("has loaded")
        while True:
            rounds = recorded.read()
            refused = keys.refused(plan.snapshot, rounds)
            if rounds and not any(len(table) for table in refused):
                return rounds
            recorded.put(len(rounds), refused)  # if another run was faster, its round is read

    def _plan(self) -> PlannedWrite:
        return plan_append(
            self.store,
            self.schema,
            partition_by=self.partition_by,
            target_file_size=self.source.target_file_size,
        )

    @property
    def _quarantine_schema(self) -> Schema:
        return Schema.from_arrow(quarantine_schema(self.schema.to_arrow()))

    def _end_early(self, written: BatchFiles, *, redo: bool) -> BatchResult | None:
        """Give the batch up if a file has changed or all files are refused; returns its result, or else None.

        Raises:
            SourceChangedError: a file of a batch to redo has changed.
        """
        changed = written.changed
        if changed and redo:
            raise self._files_changed_error(changed)
        if changed:
            self._give_up(f"{', '.join(changed)} changed while it was read")
            return BatchResult(waiting=True)
        if len(written.refused) == len(self.intent.files):
            self._give_up("every file was rejected", written.refused)
            return BatchResult(refused=written.refused)
        return None

    def _judged(self, writer: BatchWriter, written: BatchFiles) -> BatchFiles:
        try:
            return writer.judged(written)
        except (QualityError, ConstraintViolatedError) as error:
            raise self._not_loaded(error, written.refused) from error

    def _not_loaded(self, error: DeltaError, refused: Mapping[str, str] | None = None) -> QualityError:
        """Give the batch up, because its rows break a rule of the suite or of the table; returns the error to raise.

        If a run has decided to load the batch, it stays unsettled: that run may be committing it.
        """
        outcome = self.intents.decide(Outcome(self.intent.number, refused or {}, error.description))
        hint = error.hint
        if outcome.given_up is None:
            path = self.intents.outcome_path(self.intent.number)
            hint = (
                "A run has decided to load the batch, so it stays unsettled. Drop a constraint that the table got after"
                f" this decision, and run the load again. Or, if no run is alive, delete {path} and give the batch up "
                "with --give-up"
            )
        return QualityError(
            f"batch {self.intent.number} ({', '.join(file.name for file in self.intent.files)}) was not loaded: "
            f"{error.message}",
            table=self.source.table,
            hint=hint,
        )

    def _quarantine(self, plan: PlannedWrite, files: pa.Table, number: int = 0) -> None:
        """Commit the files of a round's rejected rows, unless a killed run has committed the rows of this round."""
        if not len(files):
            return
        try:
            app_id = rejects_application(self.source.name, self.intents.identity(), number)
            latest = plan_append(self.quarantine, self._quarantine_schema)
        except BaseException:
            discard(self.quarantine, files)
            raise
        last = last_batch(latest.snapshot, app_id)
        if last is not None and last >= self.intent.number:
            discard(self.quarantine, files)
            return
        # Another load may have created the quarantine since, or added columns to it.
        plan = latest if latest.takes_files_of(plan) else plan
        commit_once(plan, files, self.engine, app_id=app_id, number=self.intent.number)

    def _commit(
        self, plan: PlannedWrite, written: BatchFiles, reads: Sequence[Predicate | None] = ()
    ) -> dict[str, Any]:
        refused = written.refused
        version = commit_once(
            plan,
            written.valid_files,
            self.engine,
            app_id=self.source.name,
            number=self.intent.number,
            numbered=plan.numbered(self.schema.names),
            before_commit=lambda: self._decide_to_load(refused),
            reads=reads,
            metadata={RULES_BROKEN: dict(written.broken)} if written.broken else None,
        )
        entry = {
            "batch": self.intent.number,
            "files": [file.name for file in self.intent.files if file.name not in refused],
            "rows_loaded": written.rows,
            "rows_quarantined": written.rejected,
            "rules_broken": dict(written.broken),
            "version": version,
        }
        log.info("batch %(batch)s: %(rows_loaded)s rows loaded, %(rows_quarantined)s quarantined", entry)
        return entry

    def _give_up(self, reason: str, refused: Mapping[str, str] | None = None) -> None:
        outcome = self.intents.decide(Outcome(self.intent.number, refused or {}, reason))
        if outcome.given_up is None:
            raise self._concurrent_run_error("is loading")

    def _decide_to_load(self, refused: Mapping[str, str]) -> None:
        """Record the decision to load the batch.

        After this, no run can give up the batch. Else its files could count as new although its rows are committed.
        """
        outcome = self.intents.decide(Outcome(self.intent.number, refused))
        if outcome.given_up is not None:
            raise ConcurrentTransactionError(
                f"batch {self.intent.number} of source {self.source.name!r} was given up while it was being loaded "
                f"({outcome.given_up})",
                table=self.source.table,
                hint="Run the load again; it loads the batch's files as new ones",
            )

    def _concurrent_run_error(self, what: str) -> ConcurrentTransactionError:
        return ConcurrentTransactionError(
            f"another run of source {self.source.name!r} {what} batch {self.intent.number}",
            table=self.source.table,
            hint="Run one load of a source at a time",
        )

    def _check_files(self) -> Sequence[Fingerprint]:
        """The current fingerprints of an unsettled batch's files.

        A restored file may have another modification time. Its content must be unchanged, because a redo loads the same
        rows.
        """
        files = {file.name: self.landing.find(file.name) for file in self.intent.files}
        missing = [name for name, file in files.items() if file is None]
        if missing:
            raise self._files_changed_error(missing, f"are missing in {self.source.landing}")
        try:
            current = {name: self.landing.fingerprint(file) for name, file in files.items() if file is not None}
        except SourceRefusedError as error:
            raise self._files_changed_error(list(files), f"cannot be read ({error.message})") from error
        same = [now for file in self.intent.files if (now := current[file.name]) and now.digest == file.digest]
        if len(same) < len(current):
            names = {file.name for file in same}
            raise self._files_changed_error([name for name in current if name not in names])
        return same

    def _files_changed_error(self, names: Sequence[str], what: str = "have changed content") -> SourceChangedError:
        return SourceChangedError(
            f"batch {self.intent.number} is unsettled, and its files {', '.join(names)} {what}",
            table=self.source.table,
            hint="Restore the files, or give the batch up with --give-up",
        )

    def _unstage(self, prefix: str) -> None:
        folder, _, start = prefix.rpartition("/")
        staged = [meta.path for meta in self.store.list_from(folder, start)]
        self.store.delete_many([path for path in staged if path.startswith(prefix)])
