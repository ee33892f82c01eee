"""Write the files of a batch: run its file tasks on an engine, and judge its rows. Nothing is committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import OnTask
from lakehouse_lib.engine.parquet.task_results import results_of
from lakehouse_lib.engine.parquet.writer import can_write_rows
from lakehouse_lib.errors import QualityError, UnsupportedFeatureError
from lakehouse_lib.expressions import PredicateRule
from lakehouse_lib.ingestion.batches.keys import BatchKeys, Round
from lakehouse_lib.ingestion.batches.shares import file_parts, part_counts, task_groups
from lakehouse_lib.ingestion.file_part import FilePart, PartLines
from lakehouse_lib.ingestion.gate import Translation, broken_rules, translate
from lakehouse_lib.ingestion.landing import Fingerprint, LandedFile, Landing
from lakehouse_lib.ingestion.quality import read_rules
from lakehouse_lib.ingestion.source import Source
from lakehouse_lib.ingestion.sources.file_head import read_head
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.tasks.apart_task import ApartTask, settle_rows
from lakehouse_lib.ingestion.tasks.file_task import FileTask, TaskResult, discard_results, load_files, no_files
from lakehouse_lib.ingestion.tasks.parse import Parser
from lakehouse_lib.ingestion.tasks.part_rejects import PartRejects, write_rejects
from lakehouse_lib.ingestion.tasks.read_progress import ReadProgress
from lakehouse_lib.ingestion.tasks.suite_findings import (
    broken_row_rules,
    broken_table_rules,
    is_complete,
    is_strict,
    sum_of,
)
from lakehouse_lib.operations.write.planned_write import PlannedWrite
from lakehouse_lib.progress import Counter
from lakehouse_lib.protocol.table_properties import target_file_size
from lakehouse_lib.schema import Schema
from lakehouse_lib.store import ObjectStore

if TYPE_CHECKING:
    from lakehouse_lib.engine.base import Engine
    from lakehouse_lib.ingestion.spark_judge import SparkJudge

T = TypeVar("T")

#: The largest number of threads that parse blocks of a task. Each holds a block, and one thread writes all rows.
_MOST_THREADS = 4


@dataclass(frozen=True)
class BatchFiles:
    """The files that a batch has written, before they are committed.

    Attributes:
        task: one of the file tasks.
        results: the results of all tasks.
        broken: the number of rows that break a rule, by rule id.
        keys: the keys of the rows that are set apart until the suite's key rules are judged; None: the suite has no key
            rules, or its other rules are not judged yet.
        lines: the number of lines before each part of the files.
    """

    task: FileTask
    results: Sequence[TaskResult]
    broken: Mapping[str, int] = field(default_factory=dict)
    keys: BatchKeys | None = None
    lines: PartLines = field(default_factory=PartLines)

    @property
    def changed(self) -> list[str]:
        """Files that differ from their fingerprint."""
        return list(dict.fromkeys(name for result in self.results for name in result.changed))

    @property
    def refused(self) -> dict[str, str]:
        """By file name, the reason why a whole file was refused."""
        return {name: reason for result in self.results for name, reason in result.refused.items()}

    @property
    def rows(self) -> int:
        """The number of valid rows."""
        return sum(result.rows for result in self.results)

    @property
    def rejected(self) -> int:
        """The number of rejected rows."""
        return sum(result.rejected for result in self.results)

    @property
    def valid_files(self) -> pa.Table:
        """The files table of valid rows."""
        return pa.concat_tables([no_files(), *(result.files for result in self.results)])

    @property
    def quarantined_files(self) -> pa.Table:
        """The files table of rejected rows."""
        return pa.concat_tables([no_files(), *(result.quarantined for result in self.results)])

    @property
    def staged(self) -> list[str]:
        """The paths of the files of staged rows."""
        return [result.staged for result in self.results if result.staged is not None]

    def discard(self) -> None:
        """Delete all data files."""
        discard_results(self.task, self.results)


def suite_on_arrow(suite: Any, schema: Schema) -> Translation | None:
    """The suite as functions of record batches; None: ``suite`` is None, or Arrow cannot judge all rules.

    Raises:
        QualityError: the suite is malformed, or names an unknown column.
    """
    if suite is None:
        return None
    translation = translate(read_rules(suite, schema.names), schema)
    return translation if is_complete(translation, schema.to_arrow()) else None


def needs_spark(suite: Any, schema: Schema, plan: PlannedWrite) -> bool:
    """Whether only Spark can judge the rows, or write them into the table."""
    if not can_write_rows(schema.names, plan.target):
        return True
    if suite is None:
        return False
    translation = suite_on_arrow(suite, schema)
    # Rows that are set apart are written by other tasks, which would assign the same numbers to an identity column.
    sets_apart = translation is not None and (not is_strict(translation) or bool(translation.key_rules))
    return translation is None or (sets_apart and bool(plan.numbered(schema.names)))


def check_keys(suite: Any, schema: Schema, plan: PlannedWrite) -> None:
    """Check that Arrow can judge and write the rows, if the suite has rules that compare keys with the table.

    Raises:
        UnsupportedFeatureError: only Spark can judge or write the rows.
        QualityError: such a rule is not valid.
    """
    translation = None if suite is None else translate(read_rules(suite, schema.names), schema)
    if translation is None or not translation.key_rules or not needs_spark(suite, schema, plan):
        return
    rule = translation.key_rules[0].rule
    reasons = ", ".join(f"{rule.rule.id} ({rule.reason})" for rule in translation.untranslated)
    raise UnsupportedFeatureError(
        f"the rule {rule.id} compares with the table, and only Spark can judge or write the rows"
        f"{f': {reasons}' if reasons else ''}; expected rules, columns and a table that Arrow can judge and write",
        table=plan.target.store.root,
        hint="Leave out the rules that need Great Expectations, or the comparison with the table",
    )


@dataclass(frozen=True)
class BatchWriter:
    """Writes the files of a batch.

    Attributes:
        source: the source.
        number: the number of the batch.
        schema, suite, table_rules, source_format: the rules of the batch's intent.
        plan, quarantine: the planned writes of valid and of rejected rows.
        engine: runs the tasks.
        judge: judges and writes rows that need Spark; None: the load has no session.
        counter: counts the files and rows that are read; None: the load has no observer.
    """

    source: Source
    number: int
    schema: Schema
    suite: Any
    table_rules: tuple[PredicateRule, ...]
    source_format: SourceFormat
    plan: PlannedWrite
    quarantine: PlannedWrite
    engine: Engine
    judge: SparkJudge | None
    counter: Counter | None = None

    @property
    def by_spark(self) -> bool:
        """Whether Spark judges the rows and writes them."""
        return needs_spark(self.suite, self.schema, self.plan)

    def check_keys(self) -> None:
        """Check that Arrow can judge and write the rows, if the suite has key rules.

        Raises:
            UnsupportedFeatureError: only Spark can judge or write the rows.
        """
        check_keys(self.suite, self.schema, self.plan)

    @property
    def _store(self) -> ObjectStore:
        return self.plan.target.store

    def read(self, files: Sequence[Fingerprint], staging: str) -> BatchFiles:
        """Run the file tasks.

        Args:
            staging: the start of the paths of staged rows.

        Raises:
            UnsupportedFeatureError: the rows need Spark, and ``judge`` is None or the suite has key rules.
        """
        self.check_keys()
        if self.by_spark and self.judge is None:
            raise UnsupportedFeatureError(
                f"batch {self.number} of source {self.source.name!r} has rules that only Spark can evaluate",
                table=self.source.table,
                hint="Load it with a Spark session",
            )
        # Several tasks would assign the same numbers to an identity column.
        parallelism = 1 if self.plan.numbered(self.schema.names) else self.engine.parallelism
        size = self._data_file_size
        landing = self.source.open_landing()
        parts = self._parts(landing, files) if parallelism > 1 and self.engine.name != ArrowEngine.name else []
        split = {file.name for file, _ in parts}
        whole = [file for file in files if file.name not in split]
        groups = [tuple(whole)] if parallelism == 1 else task_groups(whole, tasks=parallelism, data_file_size=size)
        shares: list[tuple[tuple[Fingerprint, ...], FilePart | None]] = [
            *(((file,), part) for file, part in parts),
            *((group, None) for group in groups),
        ]
        parser = Parser(
            self.source_format,
            self.schema.to_arrow(),
            # The write computes a partition column that the source does not have.
            tuple(name for name in self.plan.metadata.partition_columns if name in self.schema),
            self.plan.target.store.limits,
            None if self.by_spark else suite_on_arrow(self.suite, self.schema),
            self.table_rules,
        )
        tasks = [
            FileTask(
                landing,
                group,
                self.source.name,
                self.number,
                parser,
                self.plan.target,
                self.quarantine.target,
                min(_MOST_THREADS, max(1, self.engine.parallelism // len(shares))),
                f"{staging}{place}",
                self.by_spark,
                part,
            )
            for place, (group, part) in enumerate(shares)
        ]
        return self._assembled(tasks, self._loaded(tasks))

    def _loaded(self, tasks: Sequence[FileTask]) -> list[TaskResult]:
        if self.counter is None:
            return self._run(load_files, tasks, tasks[0])
        progress = ReadProgress(self.counter, [(task.files, task.part) for task in tasks])
        if self.engine.name == ArrowEngine.name:
            return self._run(partial(load_files, progress=progress), tasks, tasks[0])
        results = self._run(load_files, tasks, tasks[0], progress.end_task)
        for task, result in zip(tasks, results, strict=True):
            progress.set_rows(task.staging, result.rows_read)
        return results

    def _parts(self, landing: Landing, files: Sequence[Fingerprint]) -> list[tuple[Fingerprint, FilePart]]:
        """The parts of the files that are split over tasks."""
        tasks, size = self.engine.parallelism, self._data_file_size
        counts = part_counts(files, self.source_format, tasks=tasks, data_file_size=size)
        chosen = [file for file in files if file.name in counts]
        heads = {file.name: read_head(LandedFile(landing, file), self.source_format) for file in chosen}
        return file_parts(chosen, counts, {name: head for name, head in heads.items() if head is not None})

    def _assembled(self, tasks: Sequence[FileTask], results: Sequence[TaskResult]) -> BatchFiles:
        """The files of the batch, with the rejected rows of parts. A refused part refuses its whole file."""
        refused: dict[str, str] = {}
        for task, result in zip(tasks, results, strict=True):
            if task.part is not None:
                refused = {**result.refused, **refused}
        answers, lines = [], []
        for task, result in zip(tasks, results, strict=True):
            name = task.files[0].name
            if task.part is not None and name in refused:
                discard_results(task, [result])
                answers.append(TaskResult(refused={name: refused[name]}, changed=result.changed))
                continue
            answers.append(result)
            if task.part is not None:
                lines.append((name, task.part, result.lines))
        written = BatchFiles(tasks[0], answers)
        if written.changed:
            return written
        written = replace(written, lines=PartLines.of(lines))
        rejects = [PartRejects(written.task, result.unplaced, written.lines) for result in answers if result.unplaced]
        try:
            return replace(written, results=[*answers, *self._run(write_rejects, rejects, written.task)])
        except BaseException:
            written.discard()
            raise

    def judged(self, written: BatchFiles) -> BatchFiles:
        """Judge the rows, and write the rows that were set apart or staged; returns all files.

        If the suite has key rules, the rows are not written yet, and ``BatchFiles.keys`` has their keys.

        Raises:
            QualityError: the batch breaks a rule about the whole batch, or a rule cannot be evaluated.
        """
        if self.by_spark:
            return self._judged_by_spark(written)
        suite = written.task.parser.suite
        if suite is None:
            return written
        findings = sum_of(suite, [result.findings for result in written.results if result.findings is not None])
        failures = broken_table_rules(suite, findings)
        if failures:
            raise QualityError(
                f"the batch breaks {'; '.join(failures)}", hint="Correct the source files, or the rule; then load again"
            )
        broken = broken_rules(suite.row_rules, findings.counts)
        judged = replace(written, broken=broken_row_rules(suite, findings))
        if suite.key_rules:
            paths = [result.apart for result in written.results if result.apart]
            return replace(judged, keys=BatchKeys.of(suite, self.schema.to_arrow(), self._store, paths, broken))
        return replace(judged, results=[*written.results, *self.settled(judged).results])

    def settled(
        self, written: BatchFiles, rounds: Sequence[Round] = (), *, rejects: int | None = 0, loads: bool = True
    ) -> BatchFiles:
        """Write the rows that were set apart; returns only the files of these rows.

        Args:
            written: the result of ``judged``.
            rounds, rejects, loads: as of ``ApartTask``.
        """
        suite = written.task.parser.suite
        assert suite is not None
        findings = sum_of(suite, [result.findings for result in written.results if result.findings is not None])
        broken = broken_rules(suite.row_rules, findings.counts)
        task = replace(written.task, target=self.plan.target, quarantine=self.quarantine.target)
        apart = [
            ApartTask(task, result.apart, broken, written.lines, tuple(rounds), rejects, loads)
            for result in written.results
            if result.apart
        ]
        return BatchFiles(task, self._run(settle_rows, apart, task))

    def _judged_by_spark(self, written: BatchFiles) -> BatchFiles:
        assert self.judge is not None
        store = written.task.target.store
        verdict = self.judge.judge(self.schema, self.suite, store, written.staged)
        new = TaskResult(rows=-verdict.rows_failing, rejected=verdict.rows_failing)
        try:
            if written.rows > verdict.rows_failing:
                staged = sum(meta.size for path in written.staged if (meta := store.head(path)) is not None)
                is_partitioned = bool(self.plan.metadata.partition_columns)
                parts = len(written.staged) if is_partitioned else max(1, -(-staged // self._data_file_size))
                new = replace(new, files=self.judge.write_passing(verdict, self.plan.target, parts))
            if verdict.failing is not None:
                target = written.task.quarantine
                failing = self.judge.write_failing(
                    verdict, self.schema, self.source.name, self.number, target, written.lines
                )
                new = replace(new, quarantined=failing)
        except BaseException:
            discard_results(written.task, [new])
            raise
        return replace(written, results=[*written.results, new], broken=verdict.broken)

    def _run(
        self,
        function: Callable[[T], pa.Table],
        tasks: Sequence[T],
        task: FileTask,
        on_task: OnTask | None = None,
    ) -> list[TaskResult]:
        if not tasks:
            return []
        return results_of(self.engine.run(function, tasks, on_task), lambda results: discard_results(task, results))

    @property
    def _data_file_size(self) -> int:
        store = self.plan.target.store
        return target_file_size(self.plan.metadata.configuration, self.source.target_file_size, table=store.root)
