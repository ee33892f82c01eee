"""Load one batch, from its intent to its commit.

Every step up to the commit can be repeated: staged rows belong to one run, the quarantine has a ``txn`` of the batch,
and a decision to load is final.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lakehouse_lib.engine.quality import Verdict
from lakehouse_lib.engine.spark import staged_rows
from lakehouse_lib.engine.spark.quality_gate import Gate
from lakehouse_lib.errors import ConcurrentTransactionError, QualityError, SourceChangedError, SourceRefusedError
from lakehouse_lib.ingestion.append import append_once, committed, snapshot_if_any
from lakehouse_lib.ingestion.intent_log import Intent, IntentLog, Outcome
from lakehouse_lib.ingestion.landing import Fingerprint
from lakehouse_lib.ingestion.parse import ParseTask, parse_file, staged_schema
from lakehouse_lib.ingestion.quality import read_rules
from lakehouse_lib.ingestion.quarantine import FILE_COLUMN, LINE_COLUMN, Origin, quarantine_schema
from lakehouse_lib.ingestion.source import Source
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.protocol.table_properties import target_file_size
from lakehouse_lib.schema import Schema
from lakehouse_lib.store import ObjectStore, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse_lib.engine.base import Engine

log = logging.getLogger(__name__)

#: A row of ``parse.REPORT_SCHEMA``: the parse task's report about one source file.
FileReport = Mapping[str, Any]


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


class Gates:
    """The quality gates of a run, cached because making a gate takes seconds."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._gates: dict[str, Gate] = {}

    def of(self, schema: Schema, suite: Any) -> Gate | None:
        """The gate of a suite; None without a suite.

        Raises:
            QualityError: the suite is not valid.
        """
        if suite is None:
            return None
        key = json.dumps([schema.json(), suite], sort_keys=True)
        if key not in self._gates:
            empty = staged_rows.empty(self._spark, _staged_rows_schema(schema))
            self._gates[key] = Gate(self._spark, read_rules(suite, schema.names), empty, schema.names)
        return self._gates[key]


class Batch:
    """The batch ``intent.number``, loaded by the rules in its intent, which may differ from the source's rules now."""

    def __init__(
        self, intent: Intent, source: Source, intents: IntentLog, spark: SparkSession, engine: Engine, gates: Gates
    ) -> None:
        self.intent = intent
        self.source = source
        self.intents = intents
        self.store: ObjectStore = intents.store
        self.landing = source.open_landing()
        self.quarantine = open_store(source.quarantine, source.storage_options.get(source.quarantine))
        self.schema = Schema.from_json(json.dumps(intent.rules["schema"]))
        self.partition_by: Sequence[str] = intent.rules.get("partition_by", source.partition_by)  # old intents lack it
        self.spark = spark
        self.engine = engine
        self.gates = gates

    def load(self, *, redo: bool) -> BatchResult:
        """Load the batch. ``redo`` says that a killed run has begun the batch.

        Raises:
            SourceChangedError: the files of a batch to redo have changed.
            QualityError: a table-level rule is broken; nothing of the batch is loaded.
            ConcurrentTransactionError: another run has loaded the batch or given it up.
        """
        files = self._check_files() if redo else self.intent.files
        prefix = self.intents.staging(self.intent.number, uuid.uuid4().hex[:12])
        try:
            reports = self.engine.run(parse_file, self._tasks(prefix, files)).to_pylist()  # a row for each source file
            return self._settle(reports, redo=redo)
        except ConcurrentTransactionError:
            raise
        except Exception as error:
            # Another run that commits the batch also deletes its staged files, those of this run included.
            if committed(snapshot_if_any(self.store), self.source.name) == self.intent.number:
                raise self._concurrent_run_error("has loaded") from error
            raise
        finally:
            self._unstage(prefix)

    def _tasks(self, prefix: str, files: Sequence[Fingerprint]) -> list[ParseTask]:
        snapshot = snapshot_if_any(self.store)
        partition_columns = self.partition_by if snapshot is None else snapshot.partition_columns
        return [
            ParseTask(
                self.landing,
                file,
                Origin(self.source.name, self.intent.number, file.name),
                SourceFormat.from_json(self.intent.rules["format"]),
                self.schema.to_arrow(),
                self.store,
                f"{prefix}{position}",
                # The write computes a partition column that the source does not have.
                tuple(name for name in partition_columns if name in self.schema),
            )
            for position, file in enumerate(files)
        ]

    def _settle(self, reports: Sequence[FileReport], *, redo: bool) -> BatchResult:
        changed = [report["source"] for report in reports if report["changed"]]
        if changed and redo:
            raise self._files_changed_error(changed)
        if changed:
            self._give_up(f"{', '.join(changed)} changed while it was read")
            return BatchResult(waiting=True)
        refused = {report["source"]: report["refused"] for report in reports if report["refused"]}
        if len(refused) == len(reports):
            self._give_up("every file was rejected", refused)
            return BatchResult(refused=refused)
        try:
            verdict = self._judge(reports)
        except QualityError as error:
            self.intents.decide(Outcome(self.intent.number, refused, error.description))
            raise QualityError(
                f"batch {self.intent.number} ({', '.join(file.name for file in self.intent.files)}) was not loaded: "
                f"{error.message}",
                table=self.source.table,
                hint=error.hint,
            ) from error
        return BatchResult(self._commit(reports, verdict, refused), refused)

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

    def _judge(self, reports: Sequence[FileReport]) -> Verdict | None:
        """The gate's verdict on the staged rows; None if no row could be read."""
        gate = self.gates.of(self.schema, self.intent.rules["suite"])
        paths = [report["path"] for report in reports if report["rows"]]
        if not paths and gate is None:
            return None
        rows = staged_rows.read(self.spark, self.store, _staged_rows_schema(self.schema), paths)
        return Verdict(rows, None, 0, {}) if gate is None else gate.judge(rows)

    def _commit(
        self, reports: Sequence[FileReport], verdict: Verdict | None, refused: Mapping[str, str]
    ) -> dict[str, Any]:
        read = sum(report["rows"] for report in reports)
        failing = 0 if verdict is None else verdict.rows_failing
        rejected = sum(report["rejected"] for report in reports)
        if failing or rejected:
            self._quarantine(reports, verdict)
        version = append_once(
            self.engine,
            self.store,
            self._coalesce(verdict.passing, reports).drop(FILE_COLUMN, LINE_COLUMN)
            if verdict is not None and read > failing
            else None,
            schema=self.schema,
            partition_by=self.partition_by,
            app_id=self.source.name,
            number=self.intent.number,
            target_file_size=self.source.target_file_size,
            before_commit=lambda: self._decide_to_load(refused),
        )
        entry = {
            "batch": self.intent.number,
            "files": [file.name for file in self.intent.files if file.name not in refused],
            "rows_loaded": read - failing,
            "rows_quarantined": failing + rejected,
            "rules_broken": {} if verdict is None else dict(verdict.broken),
            "version": version,
        }
        log.info("batch %(batch)s: %(rows_loaded)s rows loaded, %(rows_quarantined)s quarantined", entry)
        return entry

    def _coalesce(self, rows: DataFrame, reports: Sequence[FileReport]) -> DataFrame:
        """The rows in as few partitions, and so files, as the target size and the staged bytes suggest."""
        if self.partition_by:
            return rows.coalesce(len(reports))
        table = snapshot_if_any(self.store)
        properties = {} if table is None else table.configuration
        target = target_file_size(properties, self.source.target_file_size, table=self.store.root)
        staged = sum(report["size"] for report in reports)
        return rows.coalesce(max(1, -(-staged // target)))

    def _quarantine(self, reports: Sequence[FileReport], verdict: Verdict | None) -> None:
        # Tables that share a quarantine may have sources of the same name, so the name does not identify a batch.
        app_id = f"{self.source.name}@{self.intents.identity()}"
        last = committed(snapshot_if_any(self.quarantine), app_id)
        if last is not None and last >= self.intent.number:
            return  # a run that was killed after this commit has appended them
        target = Schema.from_arrow(quarantine_schema(self.schema.to_arrow()))
        rejected = [report["rejected_path"] for report in reports if report["rejected"]]
        rows = staged_rows.read(self.spark, self.store, target, rejected)
        if verdict is not None and verdict.failing is not None:
            broken = staged_rows.broken(
                verdict.failing,
                self.schema,
                source=self.source.name,
                batch=self.intent.number,
                file_column=FILE_COLUMN,
                line_column=LINE_COLUMN,
            )
            rows = rows.unionByName(broken)
        append_once(
            self.engine,
            self.quarantine,
            rows.coalesce(1),
            schema=target,
            partition_by=(),
            app_id=app_id,
            number=self.intent.number,
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


def _staged_rows_schema(schema: Schema) -> Schema:
    """The schema of staged rows: the table's columns, and each row's file and line."""
    return Schema.from_arrow(staged_schema(schema.to_arrow()))
