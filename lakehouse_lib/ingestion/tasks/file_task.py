"""The file task of a load: read source files once, and write their rows into files that no version refers to yet.

Valid rows go through the write path into data files of the table, rejected rows into data files of the quarantine. Two
kinds of valid rows are staged instead, in a Parquet file with their file and line: rows that only Spark can judge, and
rows that a suite sets apart until the whole batch is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.task_results import delete_files, result_of
from lakehouse_lib.engine.parquet.writer import write_rows
from lakehouse_lib.errors import LandingError, SourceRefusedError
from lakehouse_lib.ingestion.file_part import FilePart
from lakehouse_lib.ingestion.landing import Fingerprint, LandedFile, Landing
from lakehouse_lib.ingestion.quarantine import Origin, quarantine_schema
from lakehouse_lib.ingestion.sources.compression import codec_of
from lakehouse_lib.ingestion.tasks.parse import ParsedBlock, Parser
from lakehouse_lib.ingestion.tasks.read_progress import ReadProgress
from lakehouse_lib.ingestion.tasks.rejected_rows import RejectedRows
from lakehouse_lib.ingestion.tasks.staged_file import StagedFile
from lakehouse_lib.ingestion.tasks.suite_findings import Findings, sum_of
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.threads import map_in_threads

#: A file of at most ``_SMALL_FILE`` bytes is parsed to its end before its rows are written, unless the rows take more
#: than ``_WHOLE_BYTES`` of memory.
_SMALL_FILE = 8 << 20
_WHOLE_BYTES = 32 << 20
#: At most this many small files, of at most this many bytes in total, are parsed, judged and written as one block.
_TOGETHER_FILES = 64
_TOGETHER_BYTES = 4 << 20

_Whole = list[ParsedBlock] | SourceRefusedError | None


def no_files() -> pa.Table:
    """An empty files table."""
    return pa.Table.from_batches([], FILE_SCHEMA)  # FILE_SCHEMA.empty_table() would import pandas


@dataclass(frozen=True)
class FileTask:
    """A group of source files to load.

    Attributes:
        landing: the landing folder; executors must see a local one under the same path.
        files: the files' fingerprints in the intent.
        source, batch: the origin of the rows, for the quarantine.
        parser: how the files are parsed.
        target, quarantine: the tables that rows are written to.
        threads: the number of blocks that are parsed at the same time.
        staging: the start of the paths of staged rows in the table's store.
        judged_by_spark: whether valid rows are staged, and not written to data files.
        part: the part of the only file that is read; None: the files are read as a whole.
    """

    landing: Landing
    files: tuple[Fingerprint, ...]
    source: str
    batch: int
    parser: Parser
    target: WriteTarget
    quarantine: WriteTarget
    threads: int
    staging: str
    judged_by_spark: bool = False
    part: FilePart | None = None

    @property
    def stages_rejected(self) -> bool:
        """Whether rejected rows are staged, because the lines before them are not known."""
        return self.part is not None and self.part.number > 0


@dataclass(frozen=True)
class TaskResult:
    """The result of a file task.

    Attributes:
        files, quarantined: the files tables of the data files of valid and of rejected rows.
        rows, rejected: their numbers of rows.
        refused: by file name, the reason why a whole file was refused.
        changed: files that differ from their fingerprint; if there are any, nothing was written.
        staged: the path of the staged rows; None: there are none.
        apart: the path of the rows that are set apart (``suite_findings``); None: there are none.
        findings: the findings of the suite about the rows; None: the suite was not applied.
        rows_read: the number of rows that were read: valid rows, rejected rows, and rows that are set apart.
        lines: the number of lines that were read, if the task has a part of a file; else 0.
        unplaced: the path of rejected rows with provisional lines (``file_part``); None: there are none.
    """

    files: pa.Table = field(default_factory=no_files)
    quarantined: pa.Table = field(default_factory=no_files)
    rows: int = 0
    rejected: int = 0
    refused: Mapping[str, str] = field(default_factory=dict)
    changed: Sequence[str] = ()
    staged: str | None = None
    apart: str | None = None
    findings: Findings | None = None
    rows_read: int = 0
    lines: int = 0
    unplaced: str | None = None


def load_files(task: FileTask, progress: ReadProgress | None = None) -> pa.Table:
    """Run a file task; the result is a ``TaskResult`` (RESULT_SCHEMA).

    Args:
        progress: counts files, bytes and rows while they are read; None: nothing counts them.
    """
    return result_of(lambda: _load(task, progress))


def discard_results(task: FileTask, results: Sequence[TaskResult]) -> None:
    """Delete the data files that tasks have written, as far as possible; vacuum deletes the others."""
    delete_files((result.files for result in results), task.target.store)
    delete_files((result.quarantined for result in results), task.quarantine.store)


class _ChangedError(Exception):
    """A source file differs from its fingerprint."""


class _RefusedLateError(Exception):
    """Files were refused after rows of one were written; the task starts again without the refused files."""


def _load(task: FileTask, progress: ReadProgress | None) -> TaskResult:
    refused: dict[str, str] = {}
    while True:
        try:
            return _Run(task, refused, progress).result()
        except _ChangedError as error:
            return TaskResult(changed=[str(error)])
        except _RefusedLateError:
            continue


class _Run:
    """One run over the files that are not in ``refused``. It adds the files that it refuses to ``refused``."""

    def __init__(self, task: FileTask, refused: dict[str, str], progress: ReadProgress | None) -> None:
        self._task = task
        self._refused = refused
        self._progress = progress
        self._rows = 0
        self._rows_read = 0
        self._lines = 0
        self._unplaced = 0
        self._findings: list[Findings] = []

    def result(self) -> TaskResult:
        task = self._task
        store, files = task.target.store, no_files()
        rejected = RejectedRows(task.quarantine, quarantine_schema(task.parser.schema).names)
        try:
            with (
                StagedFile(store, f"{task.staging}-rows.parquet") as staged,
                StagedFile(store, f"{task.staging}-apart.parquet") as apart,
                StagedFile(store, f"{task.staging}-rejected.parquet") as unplaced,
            ):
                blocks = self._blocks(rejected, apart, unplaced)
                if task.judged_by_spark:
                    for block in blocks:
                        staged.write(block.staged(task.parser.schema))
                else:
                    batches = (block.rows for block in blocks if block.rows.num_rows)
                    files = write_rows(batches, task.parser.schema.names, task.target)
            quarantined = rejected.finish()
        except BaseException:
            rejected.abort()
            delete_files([files], store)
            raise
        return TaskResult(
            files,
            quarantined,
            self._rows,
            rejected.rows + self._unplaced,
            self._refused,
            staged=staged.path,
            apart=apart.path,
            findings=None if task.parser.suite is None else sum_of(task.parser.suite, self._findings),
            rows_read=self._rows_read,
            lines=0 if task.part is None else self._lines,
            unplaced=unplaced.path,
        )

    def _blocks(self, rejected: RejectedRows, apart: StagedFile, unplaced: StagedFile) -> Iterator[ParsedBlock]:
        """The blocks of all files. Their rejected rows, and their rows that are set apart, go to the three writers."""
        for block in self._parsed():
            self._rows += block.rows.num_rows
            self._rows_read += block.row_count
            self._lines += block.line_count
            if self._progress is not None:
                self._progress.set_rows(self._task.staging, self._rows_read)
            if self._task.stages_rejected:
                self._unplaced += len(block.rejected)
                for batch in block.rejected.combine_chunks().to_batches():
                    unplaced.write(batch)
            else:
                rejected.add(block.rejected)
            if block.apart is not None:
                apart.write(block.apart)
            if block.findings is not None:
                self._findings.append(block.findings)
            yield block

    def _parsed(self) -> Iterator[ParsedBlock]:
        task = self._task
        files = [file for file in task.files if file.name not in self._refused]
        large = [file for file in files if file.size > _SMALL_FILE or task.part is not None]
        small = [file for file in files if file.size <= _SMALL_FILE and task.part is None]
        groups = _groups(small)
        progress = self._progress
        for wholes in map_in_threads(
            lambda group: _together(task, group, progress), groups, task.threads, ahead=task.threads
        ):
            for file, blocks in wholes:
                if isinstance(blocks, SourceRefusedError):
                    self._refused[file.name] = blocks.description
                elif blocks is None:
                    large.append(file)
                else:
                    yield from blocks
        has_rows_of_refused = False
        for file in large:
            is_written = False
            try:
                for block in _read(task, file, task.threads, progress):
                    if not has_rows_of_refused:  # else the rest is only checked, so that the task starts again once
                        yield block
                    is_written = True
            except SourceRefusedError as error:
                self._refused[file.name] = error.description
                has_rows_of_refused |= is_written
        if has_rows_of_refused:
            raise _RefusedLateError


def _groups(files: Sequence[Fingerprint]) -> Iterator[list[Fingerprint]]:
    """Files that are parsed together: at most ``_TOGETHER_FILES`` and ``_TOGETHER_BYTES``, and not compressed."""
    group: list[Fingerprint] = []
    size = 0
    for file in files:
        is_packed = codec_of(file.name) is not None
        if group and (is_packed or size + file.size > _TOGETHER_BYTES or len(group) == _TOGETHER_FILES):
            yield group
            group, size = [], 0
        group.append(file)
        size += _TOGETHER_BYTES if is_packed else file.size
    if group:
        yield group


def _together(
    task: FileTask, group: Sequence[Fingerprint], progress: ReadProgress | None
) -> Sequence[tuple[Fingerprint, _Whole]]:
    """Each file of a group with its blocks, as of ``_whole``.

    If the group can be parsed together, the result is the first file with the block of all files.
    """
    if len(group) > 1:
        files = [LandedFile(task.landing, file) for file in group]
        for file in files:
            _check_unchanged(file)
        try:
            block = task.parser.read_together(files, Origin(task.source, task.batch, ""))
        except (LandingError, SourceRefusedError):
            block = None  # the files are parsed one by one, which shows which file is unreadable or refused
        if block is not None:
            for file in files:
                _check_unchanged(file)
                _end_file(progress, file.name)
            return [(group[0], [block])]
    return [(file, _whole(task, file, progress)) for file in group]


def _whole(task: FileTask, file: Fingerprint, progress: ReadProgress | None) -> _Whole:
    """All blocks of a file, or the error that refuses it; None: its rows take too much memory."""
    blocks, size = [], 0
    try:
        for block in _read(task, file, 0, progress):
            size += block.size
            if size > _WHOLE_BYTES:
                return None
            blocks.append(block)
    except SourceRefusedError as error:
        return error
    return blocks


def _read(task: FileTask, file: Fingerprint, threads: int, progress: ReadProgress | None) -> Iterator[ParsedBlock]:
    """The blocks of a file, which is compared with its fingerprint before and after it is read."""
    on_read = None if progress is None else partial(progress.read, file.name)
    source_file = LandedFile(task.landing, file, task.part, on_read)
    _check_unchanged(source_file)
    try:
        yield from task.parser.read(source_file, Origin(task.source, task.batch, file.name), threads)
    except (LandingError, SourceRefusedError):
        _check_unchanged(source_file)  # a file that is still being written looks damaged; it is not refused
        _end_file(progress, file.name)
        raise
    _check_unchanged(source_file)
    _end_file(progress, file.name)


def _end_file(progress: ReadProgress | None, name: str) -> None:
    if progress is not None:
        progress.end_file(name)


def _check_unchanged(source_file: LandedFile) -> None:
    if source_file.is_changed():
        raise _ChangedError(source_file.name)
