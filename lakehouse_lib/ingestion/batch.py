"""Load one batch, from its intent to its commit.

Every step up to the commit can be repeated: no version refers to the files that a run has written, the quarantine has a
``txn`` of the batch, and a decision to load is final.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.parquet.task_results import results_of
from lakehouse_lib.engine.parquet.writer import can_write_rows
from lakehouse_lib.engine.quality import Verdict
from lakehouse_lib.errors import ConcurrentTransactionError, QualityError, SourceChangedError, UnsupportedFeatureError
from lakehouse_lib.ingestion.append import commit_once, committed, plan_append, snapshot_if_any
from lakehouse_lib.ingestion.batch_planning import task_groups
from lakehouse_lib.ingestion.file_task import FileTask, TaskResult, discard_results, load_files
from lakehouse_lib.ingestion.intent_log import Intent, IntentLog, Outcome
from lakehouse_lib.ingestion.landing import Fingerprint, fingerprint, scan
from lakehouse_lib.ingestion.parse import Parser
from lakehouse_lib.ingestion.quarantine import quarantine_schema
from lakehouse_lib.ingestion.source import Source
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.operations.files import discard
from lakehouse_lib.operations.write.planned_write import PlannedWrite
from lakehouse_lib.protocol.table_properties import target_file_size
from lakehouse_lib.schema import Schema
from lakehouse_lib.store import ObjectStore, open_store

if TYPE_CHECKING:
    from lakehouse_lib.engine.base import Engine
    from lakehouse_lib.ingestion.spark_judge import SparkJudge

log = logging.getLogger(__name__)

#: A batch of at most this many bytes is loaded by threads of this process, also if there is a Spark session.
IN_PROCESS_BYTES = 1 << 30


@dataclass(frozen=True)
class BatchResult:
    """The result of a batch.

    Attributes:
        entry: the batch's entry in the job's report; None if nothing was loaded.
        refused: by file name, the reason of its rejection.
        waiting: whether a file changed while it was read. If so, the batch was given up, and its files count as new.
    """

    entry: Mapping[str, Any] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)
    waiting: bool = False


@dataclass(frozen=True)
class _Written:
    """What the file tasks of a batch have written, before it is committed.

    Attributes:
        task: one of the tasks.
        results: the results of all tasks.
        failing: the number of rows that break a rule of the suite.
        broken: the number of rows that break a rule, by rule id.
    """

    task: FileTask
    results: Sequence[TaskResult]
    failing: int = 0
    broken: Mapping[str, int] = field(default_factory=dict)

    @property
    def refused(self) -> dict[str, str]:
        return {name: reason for result in self.results for name, reason in result.refused.items()}

    @property
    def rows(self) -> int:
        return sum(result.rows for result in self.results)

    @property
    def rejected(self) -> int:
        return sum(result.rejected for result in self.results)

    @property
    def files(self) -> pa.Table:
        return pa.concat_tables([result.files for result in self.results])

    @property
    def quarantined(self) -> pa.Table:
        return pa.concat_tables([result.quarantined for result in self.results])

    @property
    def staged(self) -> list[str]:
        return [result.staged for result in self.results if result.staged is not None]

    def discard(self) -> None:
        discard_results(self.task, self.results)


class Batch:
    """The batch ``intent.number``, loaded by the rules in its intent, which may differ from the source's rules now."""

    def __init__(
        self,
        intent: Intent,
        source: Source,
        intents: IntentLog,
        judge: SparkJudge | None = None,
    ) -> None:
        """Prepare the batch.

        Args:
            judge: judges and writes the rows that need Spark, and runs large batches; None: there is no Spark session.
        """
        self.intent = intent
        self.source = source
        self.intents = intents
        self.store: ObjectStore = intents.store
        self.quarantine = open_store(source.quarantine, source.storage_options.get(source.quarantine))
        self.schema = Schema.from_json(json.dumps(intent.rules["schema"]))
        self.suite = intent.rules["suite"]
        self.partition_by: Sequence[str] = intent.rules.get("partition_by", source.partition_by)  # old intents lack it
        self.judge = judge
        self.engine: Engine = ArrowEngine()
        if judge is not None and sum(file.size for file in intent.files) > IN_PROCESS_BYTES:
            self.engine = judge.engine

    def load(self, *, redo: bool) -> BatchResult:
        """Load the batch. ``redo`` says that a killed run has begun the batch.

        Raises:
            SourceChangedError: the files of a batch to redo have changed.
            QualityError: a table-level rule is broken; nothing of the batch is loaded.
            ConcurrentTransactionError: another run has loaded the batch or given it up.
            UnsupportedFeatureError: the rows need Spark, and there is no session.
        """
        files = self._check_files() if redo else self.intent.files
        staging = self.intents.staging(self.intent.number, uuid.uuid4().hex[:12])
        try:
            return self._load(files, staging, redo=redo)
        except ConcurrentTransactionError:
            raise
        except Exception as error:
            # Another run that commits the batch also deletes its staged files, those of this run included.
            if committed(snapshot_if_any(self.store), self.source.name) == self.intent.number:
                raise self._concurrent_run_error("has loaded") from error
            raise
        finally:
            self._unstage(staging)

    def _load(self, files: Sequence[Fingerprint], staging: str, *, redo: bool) -> BatchResult:
        plan = plan_append(
            self.store,
            self.schema,
            partition_by=self.partition_by,
            target_file_size=self.source.target_file_size,
        )
        quarantine = plan_append(self.quarantine, self._quarantine_schema)
        written = self._write(plan, quarantine, files, staging)
        try:
            ended = self._end_early(written, redo=redo)
            if ended is not None:
                written.discard()
                return ended
            if self._needs_spark(plan):
                written = self._write_judged(plan, written)
        except BaseException:
            written.discard()
            raise
        try:
            self._quarantine(quarantine, written.quarantined)
        except BaseException:
            discard(self.store, written.files)
            raise
        return BatchResult(self._commit(plan, written), written.refused)

    def _needs_spark(self, plan: PlannedWrite) -> bool:
        return self.suite is not None or not can_write_rows(self.schema.names, plan.target)

    def _write(
        self, plan: PlannedWrite, quarantine: PlannedWrite, files: Sequence[Fingerprint], staging: str
    ) -> _Written:
        """Run the file tasks."""
        if self._needs_spark(plan) and self.judge is None:
            raise UnsupportedFeatureError(
                f"batch {self.intent.number} of source {self.source.name!r} has rules that only Spark can evaluate",
                table=self.source.table,
                hint="Load it with a Spark session",
            )
        size = self._data_file_size(plan)
        # The tasks would assign the same numbers to an identity column.
        parallelism = 1 if plan.numbered(self.schema.names) else self.engine.parallelism
        groups = [tuple(files)] if parallelism == 1 else task_groups(files, tasks=parallelism, data_file_size=size)
        parser = Parser(
            SourceFormat.from_json(self.intent.rules["format"]),
            self.schema.to_arrow(),
            # The write computes a partition column that the source does not have.
            tuple(name for name in plan.metadata.partition_columns if name in self.schema),
            self.store.limits,
        )
        tasks = [
            FileTask(
                str(self.source.landing),
                group,
                self.source.name,
                self.intent.number,
                parser,
                plan.target,
                quarantine.target,
                max(1, self.engine.parallelism // len(groups)),
                f"{staging}{place}-rows.parquet" if self._needs_spark(plan) else None,
            )
            for place, group in enumerate(groups)
        ]
        results = results_of(self.engine.run(load_files, tasks), lambda done: discard_results(tasks[0], done))
        return _Written(tasks[0], results)

    def _data_file_size(self, plan: PlannedWrite) -> int:
        return target_file_size(plan.metadata.configuration, self.source.target_file_size, table=self.store.root)

    @property
    def _quarantine_schema(self) -> Schema:
        return Schema.from_arrow(quarantine_schema(self.schema.to_arrow()))

    def _end_early(self, written: _Written, *, redo: bool) -> BatchResult | None:
        """The result of a batch of which nothing can be loaded, after it is given up; else None."""
        changed = [name for result in written.results for name in result.changed]
        if changed and redo:
            raise self._files_changed_error(changed)
        if changed:
            self._give_up(f"{', '.join(changed)} changed while it was read")
            return BatchResult(waiting=True)
        if len(written.refused) == len(self.intent.files):
            self._give_up("every file was rejected", written.refused)
            return BatchResult(refused=written.refused)
        return None

    def _write_judged(self, plan: PlannedWrite, written: _Written) -> _Written:
        """Judge the staged rows with Spark, and write them."""
        assert self.judge is not None
        verdict = self._judge(written)
        passing = written.rows - verdict.rows_failing
        new = TaskResult(rows=0)
        try:
            if passing:
                staged = sum(meta.size for path in written.staged if (meta := self.store.head(path)) is not None)
                parts = len(written.staged) if self.partition_by else max(1, -(-staged // self._data_file_size(plan)))
                new = replace(new, files=self.judge.write_passing(verdict, plan.target, parts))
            if verdict.failing is not None:
                failing = self.judge.write_failing(
                    verdict, self.schema, self.source.name, self.intent.number, written.task.quarantine
                )
                new = replace(new, quarantined=failing)
        except BaseException:
            discard_results(written.task, [new])
            raise
        return _Written(written.task, [*written.results, new], verdict.rows_failing, verdict.broken)

    def _judge(self, written: _Written) -> Verdict:
        assert self.judge is not None
        try:
            return self.judge.judge(self.schema, self.suite, self.store, written.staged)
        except QualityError as error:
            self.intents.decide(Outcome(self.intent.number, written.refused, error.description))
            raise QualityError(
                f"batch {self.intent.number} ({', '.join(file.name for file in self.intent.files)}) was not loaded: "
                f"{error.message}",
                table=self.source.table,
                hint=error.hint,
            ) from error

    def _quarantine(self, plan: PlannedWrite, files: pa.Table) -> None:
        """Commit the files of rejected rows, unless a killed run has committed those of this batch."""
        if not len(files):
            return
        try:
            # Tables that share a quarantine may have sources of the same name, so the name does not identify a batch.
            app_id = f"{self.source.name}@{self.intents.identity()}"
            latest = plan_append(self.quarantine, self._quarantine_schema)
        except BaseException:
            discard(self.quarantine, files)
            raise
        last = committed(latest.snapshot, app_id)
        if last is not None and last >= self.intent.number:
            discard(self.quarantine, files)
            return
        # Another load may have created the quarantine since, or added columns to it.
        plan = latest if latest.takes_files_of(plan) else plan
        commit_once(plan, files, self.engine, app_id=app_id, number=self.intent.number)

    def _commit(self, plan: PlannedWrite, written: _Written) -> dict[str, Any]:
        refused = written.refused
        version = commit_once(
            plan,
            written.files,
            self.engine,
            app_id=self.source.name,
            number=self.intent.number,
            numbered=plan.numbered(self.schema.names),
            before_commit=lambda: self._decide_to_load(refused),
        )
        entry = {
            "batch": self.intent.number,
            "files": [file.name for file in self.intent.files if file.name not in refused],
            "rows_loaded": written.rows - written.failing,
            "rows_quarantined": written.failing + written.rejected,
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

        Afterwards the batch cannot be given up; else its files would count as new while its rows are committed.
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
        files = scan(self.source.landing)
        missing = [file.name for file in self.intent.files if file.name not in files]
        if missing:
            raise self._files_changed_error(missing, f"are missing in {self.source.landing}")
        current = {file.name: fingerprint(self.source.landing, files[file.name]) for file in self.intent.files}
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
