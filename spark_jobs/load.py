"""Loading a source into a table, batch by batch, each exactly once, wherever a run dies.

The order in which a batch is loaded is what makes a redo exact:

1. The intent is put if absent: which files, of what content, judged by which rules.
2. The files are parsed into staged rows and judged by the gate. Nothing of this is visible, all of it can be redone.
3. The outcome is put if absent, when files are refused or the batch is given up.
4. Quarantined rows are appended with ``txn(source, N)``, unless the quarantine table has that ``txn``.
5. Rows are appended with ``txn(source, N)`` in the same commit. Now the batch is loaded.
6. Staged rows are deleted.

A run that dies before 5 leaves batch N unsettled, and the next one redoes it by the intent's own files and rules. Of
two runs at once, one puts the intent, and one wins the commit in 5; the other ends with ConcurrentTransactionError.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse_lib.errors import (
    ConcurrentTransactionError,
    IngestError,
    QualityError,
    SchemaMismatchError,
    SourceChangedError,
    SourceRefusedError,
)
from lakehouse_lib.ingestion.append import append_once, committed, snapshot_if_any
from lakehouse_lib.ingestion.batches import History, Sorted, cut, history, sort_files
from lakehouse_lib.ingestion.intent import Intent, IntentLog, Outcome
from lakehouse_lib.ingestion.landing import Fingerprint, SourceFile, fingerprint, scan, still_growing
from lakehouse_lib.ingestion.parse import ParseTask, check_schema, parse_file, staged_schema
from lakehouse_lib.ingestion.rejects import FILE_COLUMN, LINE_COLUMN, Origin, quarantine_schema
from lakehouse_lib.ingestion.source_format import SourceFormat
from lakehouse_lib.schema import Schema
from lakehouse_lib.store import open_store
from spark_jobs.quality import VIOLATIONS, Gate, Verdict, read_rules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse_lib.engine.base import Engine

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """What is loaded, and into what.

    Attributes:
        suite: the quality suite's JSON; None: no gate.
        partition_by: of a table that has to be created.
        settle_seconds: a file modified less than this ago is still growing.
        target_file_size: bytes; None: the table's.
    """

    table: str
    landing: Path
    name: str
    format: SourceFormat
    schema: Schema
    suite: Any
    quarantine: str
    partition_by: tuple[str, ...] = ()
    files_per_batch: int = 1
    settle_seconds: float = 0
    target_file_size: int | None = None

    def rules(self) -> dict[str, Any]:
        """What a batch is judged by, as its intent keeps it."""
        return {"format": self.format.to_json(), "schema": self.schema.json(), "suite": self.suite}


@dataclass
class Report:
    """What a run did; ``batches`` holds one entry a batch."""

    version_before: int | None
    batches: list[dict[str, Any]] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    quarantine_version: int | None = None
    version: int | None = None

    def to_json(self, source: Source) -> dict[str, Any]:
        return {
            "table": source.table,
            "version": self.version,
            "version_before": self.version_before,
            "version_after": self.version,
            "batches": self.batches,
            "files_loaded": sum(len(batch["files"]) for batch in self.batches),
            "rows_loaded": sum(batch["rows_loaded"] for batch in self.batches),
            "rows_quarantined": sum(batch["rows_quarantined"] for batch in self.batches),
            "files_waiting": self.waiting,
            "files_refused": [{"file": name, "error": error} for name, error in sorted(self.refused.items())],
            "files_changed": [{"file": name, "batch": batch} for name, batch in sorted(self.changed.items())],
            "quarantine": source.quarantine,
            "quarantine_version": self.quarantine_version,
        }

    def error(self, *, refusals_fail: bool) -> IngestError | None:
        """What the run has to fail with after all that could be loaded is loaded."""
        problems = [
            f"{name} was loaded in batch {batch} and has other content now" for name, batch in self.changed.items()
        ]
        if refusals_fail:
            problems += self.refused.values()
        if not problems:
            return None
        if not self.changed:
            return SourceRefusedError(" | ".join(problems))
        hint = "Land changed content under a new name, or put the loaded file back"
        kind = IngestError if refusals_fail and self.refused else SourceChangedError
        return kind(" | ".join(problems), hint=hint)


class Load:
    """One run over a source. Making one checks everything that can be checked without Spark and writes nothing.

    Raises:
        LandingError, SchemaMismatchError, InvalidSchemaError, QualityError, InvalidArgumentError, IngestError: what was
            given cannot be loaded, or the intent log and the table contradict each other.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.first_look = scan(source.landing)
        check_schema(source.schema.to_arrow(), source.format)
        if source.suite is not None:
            read_rules(source.suite, source.schema.names)
        self.store = open_store(source.table)
        self.quarantine = open_store(source.quarantine)
        self.intents = IntentLog(self.store, source.name)
        self._check_table()
        self.past = self._history()
        self._gates: dict[str, Gate] = {}

    def nothing_to_do(self) -> Report | None:
        """The report, if all files are loaded, refused or still growing and no batch is half done; else None."""
        files = self._sort(self.first_look)
        if files.new or self.past.unsettled is not None:
            return None
        return self._report(files)

    def give_up(self) -> None:
        """Give the half-done batch up, so that its files are new again; quarantined rows of it stay."""
        if self.past.unsettled is None:
            raise IngestError(f"no batch of source {self.source.name!r} is half done", table=self.source.table)
        self.intents.put(Outcome(self.past.unsettled.number, given_up="by hand"))
        self.past = self._history()

    def run(self, spark: SparkSession) -> Report:
        """Load whatever has settled; a batch that fails as a whole stops the run, what was loaded before stays."""
        from lakehouse_lib.engine.spark import SparkEngine

        engine = SparkEngine(spark)
        self.store.delete_many(self.intents.staged(self.past.settled))
        version_before = _version(snapshot_if_any(self.store))
        done: list[dict[str, Any]] = []
        refused: dict[str, str] = {}
        if self.past.unsettled is not None:
            self._load(spark, engine, self.past.unsettled, done, refused, redo=True)
            self.past = self._history()
            self.store.delete_many(self.intents.staged(self.past.settled))  # what the dead run had staged of it
        files = self._sort(scan(self.source.landing))
        number = self.past.next_number
        waiting = list(files.waiting)
        if files.new:
            self._gate(
                spark, self.source.schema, self.source.suite
            )  # an unusable suite is found before an intent is put
        for batch in cut(files.new, self.source.files_per_batch):
            intent = self._intent(number, batch)
            if intent is None:
                waiting += [file.name for file in batch]
                continue
            if not self.intents.put(intent):
                raise ConcurrentTransactionError(
                    f"another run of source {self.source.name!r} has just begun batch {number}",
                    table=self.source.table,
                    hint="Let it finish; run one load a source at a time",
                )
            if not self._load(spark, engine, intent, done, refused, redo=False):
                waiting += [file.name for file in batch]
            number += 1
        report = self._report(files)
        report.batches, report.waiting, report.version_before = done, sorted(waiting), version_before
        report.refused.update(refused)
        return report

    def _report(self, files: Sorted) -> Report:
        version = _version(snapshot_if_any(self.store))
        return Report(
            version,
            waiting=list(files.waiting),
            refused=dict(files.refused),
            changed=dict(files.changed),
            quarantine_version=_version(snapshot_if_any(self.quarantine)),
            version=version,
        )

    def _check_table(self) -> None:
        snapshot = snapshot_if_any(self.store)
        if snapshot is None:
            return
        columns = {one.name: (str(one.type), one.nullable) for one in snapshot.schema.fields}
        given = {one.name: (str(one.type), one.nullable) for one in self.source.schema.fields}
        wrong = [
            f"{name}: the table has {_shown(columns.get(name))}, the schema file {_shown(given.get(name))}"
            for name in {**columns, **given}
            if columns.get(name) != given.get(name)
        ]
        if wrong:
            raise SchemaMismatchError(
                f"the schema file does not say what the table is: {'; '.join(wrong)}",
                table=self.source.table,
                version=snapshot.version,
                hint="Correct the schema file, or change the table first",
            )

    def _history(self) -> History:
        # The intents first: a batch that is committed in between is then seen as unsettled, never as lost.
        intents, outcomes = self.intents.read()
        return history(
            intents,
            outcomes,
            committed(snapshot_if_any(self.store), self.source.name),
            table=self.source.table,
            source=self.source.name,
        )

    def _sort(self, files: Mapping[str, SourceFile]) -> Sorted:
        growing = still_growing(
            self.first_look, files, now=time.time_ns() // 1_000_000, settle=int(self.source.settle_seconds * 1000)
        )
        return sort_files(files, growing, self.past, lambda file: fingerprint(self.source.landing, file))

    def _intent(self, number: int, batch: Sequence[SourceFile]) -> Intent | None:
        prints = [fingerprint(self.source.landing, file) for file in batch]
        found = tuple(one for one in prints if one is not None)
        if len(found) < len(batch):
            return None  # one of them grew under our hands
        return Intent(number, found, self.source.rules())

    def _load(
        self,
        spark: SparkSession,
        engine: Engine,
        intent: Intent,
        done: list[dict[str, Any]],
        refused: dict[str, str],
        *,
        redo: bool,
    ) -> bool:
        """Take one batch from its intent to its commit. False: a file changed meanwhile, and the batch is given up."""
        run = uuid.uuid4().hex[:12]
        prefix = self.intents.staging(intent.number, run)
        schema = Schema.from_json(json.dumps(intent.rules["schema"]))
        if redo:
            self._check_redo(intent)
        tasks = [
            ParseTask(
                str(self.source.landing),
                file,
                Origin(self.source.name, intent.number, file.name),
                SourceFormat.from_json(intent.rules["format"]),
                schema.to_arrow(),
                self.store,
                f"{prefix}{position}",
            )
            for position, file in enumerate(intent.files)
        ]
        try:
            reports = engine.run(parse_file, tasks).to_pylist()  # a row a source file
            changed = [report["source"] for report in reports if report["changed"]]
            if changed and redo:
                raise self._not_as_it_was(intent, changed)
            if changed:
                self.intents.put(Outcome(intent.number, given_up=f"{', '.join(changed)} changed while it was read"))
                return False
            batch_refused = {report["source"]: report["refused"] for report in reports if report["refused"]}
            refused.update(batch_refused)
            if len(batch_refused) == len(reports):
                self.intents.put(Outcome(intent.number, batch_refused, "every file was refused"))
                return True
            try:
                verdict = self._judge(spark, schema, intent.rules["suite"], reports)
            except QualityError as error:
                self.intents.put(Outcome(intent.number, batch_refused, str(error)))
                raise QualityError(
                    f"batch {intent.number} ({', '.join(file.name for file in intent.files)}) was not loaded: "
                    f"{error.message}",
                    table=self.source.table,
                    hint=error.hint,
                ) from error
            if batch_refused:
                self.intents.put(Outcome(intent.number, batch_refused))
            done.append(self._commit(spark, engine, intent, schema, reports, verdict))
            return True
        except ConcurrentTransactionError:
            raise
        except Exception as error:
            # Another run that commits the batch also takes its staged files away, ours among them.
            if committed(snapshot_if_any(self.store), self.source.name) == intent.number:
                raise ConcurrentTransactionError(
                    f"another run of source {self.source.name!r} has loaded batch {intent.number}",
                    table=self.source.table,
                    hint="Run one load a source at a time",
                ) from error
            raise
        finally:
            self._unstage(prefix)

    def _judge(
        self, spark: SparkSession, schema: Schema, suite: Any, reports: Sequence[Mapping[str, Any]]
    ) -> Verdict | None:
        """None: no row could be read."""
        staged = _staged(schema)
        gate = self._gate(spark, schema, suite)
        paths = [report["path"] for report in reports if report["rows"]]
        if not paths and gate is None:
            return None
        rows = self._read(spark, staged, paths)
        return Verdict(rows, None, 0, {}) if gate is None else gate.judge(rows)

    def _gate(self, spark: SparkSession, schema: Schema, suite: Any) -> Gate | None:
        if suite is None:
            return None
        key = json.dumps([schema.json(), suite], sort_keys=True)
        if key not in self._gates:
            self._gates[key] = Gate(spark, suite, spark.createDataFrame([], _staged(schema)), schema.names)
        return self._gates[key]

    def _read(self, spark: SparkSession, schema: Any, paths: Sequence[str]) -> DataFrame:
        if not paths:
            return spark.createDataFrame([], schema)
        reader = spark.read.schema(schema).option("__globPaths__", "false")  # the table's path may hold a * or a [
        return reader.parquet(*(f"file:{self.store.root}/{path}" for path in paths))

    def _commit(
        self,
        spark: SparkSession,
        engine: Engine,
        intent: Intent,
        schema: Schema,
        reports: Sequence[Mapping[str, Any]],
        verdict: Verdict | None,
    ) -> dict[str, Any]:
        read = sum(report["rows"] for report in reports)
        failing = 0 if verdict is None else verdict.rows_failing
        rejected = sum(report["rejected"] for report in reports)
        if failing or rejected:
            self._quarantine(spark, engine, intent, schema, reports, verdict)
        version = append_once(
            engine,
            self.store,
            self._sized(verdict.passing, reports).drop(FILE_COLUMN, LINE_COLUMN)
            if verdict is not None and read > failing
            else None,
            schema=schema,
            partition_by=self.source.partition_by,
            source=self.source.name,
            number=intent.number,
            target_file_size=self.source.target_file_size,
        )
        refused = {report["source"] for report in reports if report["refused"]}
        entry = {
            "batch": intent.number,
            "files": [file.name for file in intent.files if file.name not in refused],
            "rows_loaded": read - failing,
            "rows_quarantined": failing + rejected,
            "rules_broken": {} if verdict is None else dict(verdict.broken),
            "version": version,
        }
        log.info("batch %(batch)s: %(rows_loaded)s rows loaded, %(rows_quarantined)s quarantined", entry)
        return entry

    def _sized(self, rows: DataFrame, reports: Sequence[Mapping[str, Any]]) -> DataFrame:
        """As few partitions, and so files, as the target size allows: staged bytes are about the table's."""
        if self.source.target_file_size is None or self.source.partition_by:
            return rows.coalesce(len(reports))
        staged = sum(report["size"] for report in reports)
        return rows.coalesce(max(1, -(-staged // self.source.target_file_size)))

    def _quarantine(
        self,
        spark: SparkSession,
        engine: Engine,
        intent: Intent,
        schema: Schema,
        reports: Sequence[Mapping[str, Any]],
        verdict: Verdict | None,
    ) -> None:
        last = committed(snapshot_if_any(self.quarantine), self.source.name)
        if last is not None and last >= intent.number:
            return  # a run that died after this commit has done it
        target = Schema.from_arrow(quarantine_schema(schema.to_arrow()))
        rows = self._read(
            spark, _spark_schema(target), [report["rejected_path"] for report in reports if report["rejected"]]
        )
        if verdict is not None and verdict.failing is not None:
            rows = rows.unionByName(_quarantined(verdict.failing, schema, self.source.name, intent.number))
        append_once(
            engine,
            self.quarantine,
            rows.coalesce(1),
            schema=target,
            partition_by=(),
            source=self.source.name,
            number=intent.number,
        )

    def _check_redo(self, intent: Intent) -> None:
        """The files of a half-done batch must be what they were, or a redo would load other rows than were begun."""
        files = scan(self.source.landing)
        missing = [file.name for file in intent.files if file.name not in files]
        if missing:
            raise SourceChangedError(
                f"batch {intent.number} was half done and its files {', '.join(missing)} are gone from "
                f"{self.source.landing}",
                table=self.source.table,
                hint="Put them back as they were, or give the batch up with --give-up",
            )
        changed = [file.name for file in intent.files if not _unchanged(self.source.landing, file, files[file.name])]
        if changed:
            raise self._not_as_it_was(intent, changed)

    def _not_as_it_was(self, intent: Intent, changed: Sequence[str]) -> SourceChangedError:
        return SourceChangedError(
            f"batch {intent.number} was half done and its files {', '.join(changed)} have other content now",
            table=self.source.table,
            hint="Put them back as they were, or give the batch up with --give-up",
        )

    def _unstage(self, prefix: str) -> None:
        folder, _, start = prefix.rpartition("/")
        staged = [meta.path for meta in self.store.list_from(folder, start)]
        self.store.delete_many([path for path in staged if path.startswith(prefix)])


def _quarantined(failing: DataFrame, schema: Schema, source: str, batch: int) -> DataFrame:
    """Rows that broke rules, in the quarantine's layout."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    nested = {one.name for one in failing.schema if isinstance(one.dataType, ArrayType | MapType | StructType)}
    column = {name: F.col("`" + name.replace("`", "``") + "`") for name in schema.names}
    first = F.get(VIOLATIONS, F.lit(0))
    return failing.select(
        *(
            (F.to_json(column[name]) if name in nested else column[name].cast("string")).alias(name)
            for name in schema.names
        ),
        F.lit(source).alias("_source"),
        F.lit(batch).cast("long").alias("_batch"),
        F.col(FILE_COLUMN).alias("_file"),
        F.col(LINE_COLUMN).alias("_line"),
        first["column"].alias("_column"),
        first["reason"].alias("_reason"),
        first["rule"].alias("_rule"),
        F.col(VIOLATIONS).alias("_violations"),
        F.lit(None).cast("string").alias("_raw"),
    )


def _staged(schema: Schema) -> Any:
    return _spark_schema(Schema.from_arrow(staged_schema(schema.to_arrow())))


def _spark_schema(schema: Schema) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromJson(schema.json())


def _unchanged(landing: Path, before: Fingerprint, file: SourceFile) -> bool:
    now = fingerprint(landing, file)
    return now is not None and now.digest == before.digest


def _version(snapshot: Any) -> int | None:
    return None if snapshot is None else int(snapshot.version)


def _shown(column: tuple[str, bool] | None) -> str:
    return "no such column" if column is None else column[0] + ("" if column[1] else " not null")
