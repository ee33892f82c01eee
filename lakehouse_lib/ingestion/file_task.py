"""The file task of a load: read source files once, and write their rows into files that no version refers to yet.

Valid rows go through the write path into data files of the table, rejected rows into data files of the quarantine. If
only Spark can judge the rows, the valid rows are staged instead: written to one Parquet file with their file and line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.arrow.values import literal
from lakehouse_lib.engine.base import WriteTarget
from lakehouse_lib.engine.parquet.task_results import delete_files, result_of
from lakehouse_lib.engine.parquet.writer import write_rows
from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.landing import Fingerprint, SourceFile, inside
from lakehouse_lib.ingestion.parse import ParsedBlock, Parser, staged_schema
from lakehouse_lib.ingestion.quarantine import Origin, quarantine_schema
from lakehouse_lib.protocol.actions import FILE_SCHEMA
from lakehouse_lib.threads import in_order

#: A file of at most this size, whose rows take at most that memory, is parsed to its end before rows of it are written.
_SMALL_FILE = 8 << 20
_WHOLE_BYTES = 32 << 20
#: Rejected rows are written to a file when they take this memory.
_REJECTED_BYTES = 64 << 20


def _no_files() -> pa.Table:
    return pa.Table.from_batches([], FILE_SCHEMA)  # FILE_SCHEMA.empty_table() would import pandas


@dataclass(frozen=True)
class FileTask:
    """A group of source files to load.

    Attributes:
        landing: the landing folder; the executors must see it under the same path.
        files: the files' fingerprints in the intent.
        source, batch: the origin of the rows, for the quarantine.
        parser: how the files are parsed.
        target, quarantine: the tables that rows are written to.
        threads: blocks that are parsed at the same time.
        staged: the path of the staged rows in the table's store; None: rows are written to data files.
    """

    landing: str
    files: tuple[Fingerprint, ...]
    source: str
    batch: int
    parser: Parser
    target: WriteTarget
    quarantine: WriteTarget
    threads: int
    staged: str | None = None


@dataclass(frozen=True)
class TaskResult:
    """The result of a file task.

    Attributes:
        files, quarantined: the files tables of the data files of valid and of rejected rows.
        rows, rejected: their numbers of rows.
        refused: by file name, the reason why a whole file was rejected.
        changed: files that differ from their fingerprint; if there are any, nothing was written.
        staged: the path of the staged rows; None: there are none.
    """

    files: pa.Table = field(default_factory=_no_files)
    quarantined: pa.Table = field(default_factory=_no_files)
    rows: int = 0
    rejected: int = 0
    refused: Mapping[str, str] = field(default_factory=dict)
    changed: Sequence[str] = ()
    staged: str | None = None


def load_files(task: FileTask) -> pa.Table:
    """Run a file task; the result is a ``TaskResult`` (RESULT_SCHEMA)."""
    return result_of(lambda: _load(task))


def discard_results(task: FileTask, results: Sequence[TaskResult]) -> None:
    """Delete the data files that tasks have written, as far as possible; vacuum deletes the others."""
    delete_files((result.files for result in results), task.target.store)
    delete_files((result.quarantined for result in results), task.quarantine.store)


class _ChangedError(Exception):
    """A source file differs from its fingerprint."""


class _RefusedLateError(Exception):
    """A file was refused after rows of it were written; the task starts again without the file."""


def _load(task: FileTask) -> TaskResult:
    refused: dict[str, str] = {}
    while True:
        try:
            return _Run(task, refused).result()
        except _ChangedError as error:
            return TaskResult(changed=[str(error)])
        except _RefusedLateError:
            continue


class _Run:
    """One run over the files that are not refused; it adds files that it refuses to ``refused``."""

    def __init__(self, task: FileTask, refused: dict[str, str]) -> None:
        self._task = task
        self._refused = refused
        self._rows = self._rejected_rows = 0
        self._rejected = _RejectedRows(task)

    def result(self) -> TaskResult:
        task = self._task
        files, staged = _no_files(), None
        try:
            if task.staged is None:
                batches = (block.rows for _, block in self._blocks() if block.rows.num_rows)
                files = write_rows(batches, task.parser.schema.names, task.target)
            else:
                staged = _stage(task, task.staged, self._blocks())
            quarantined = self._rejected.finish()
        except BaseException:
            self._rejected.abort()
            delete_files([files], task.target.store)
            raise
        return TaskResult(files, quarantined, self._rows, self._rejected_rows, self._refused, (), staged)

    def _blocks(self) -> Iterator[tuple[str, ParsedBlock]]:
        """The blocks of all files with the files' names. Their rejected rows are taken out on the way."""
        for name, block in self._parsed():
            self._rows += block.rows.num_rows
            self._rejected_rows += len(block.rejected)
            self._rejected.add(block.rejected)
            yield name, block

    def _parsed(self) -> Iterator[tuple[str, ParsedBlock]]:
        task = self._task
        files = [file for file in task.files if file.name not in self._refused]
        large = [file for file in files if file.size > _SMALL_FILE]
        small = [file for file in files if file.size <= _SMALL_FILE]
        wholes = in_order(lambda file: _whole(task, file), small, task.threads, ahead=task.threads)
        for file, blocks in zip(small, wholes, strict=True):
            if isinstance(blocks, SourceRefusedError):
                self._refused[file.name] = blocks.description
            elif blocks is None:
                large.append(file)
            else:
                yield from ((file.name, block) for block in blocks)
        for file in large:
            is_written = False
            try:
                for block in _read(task, file, task.threads):
                    yield file.name, block
                    is_written = True
            except SourceRefusedError as error:
                self._refused[file.name] = error.description
                if is_written:
                    raise _RefusedLateError from error


def _whole(task: FileTask, file: Fingerprint) -> list[ParsedBlock] | SourceRefusedError | None:
    """All blocks of a file, or the error that refuses it; None if its rows take too much memory, as of an archive."""
    blocks, size = [], 0
    try:
        for block in _read(task, file, 0):
            size += block.size
            if size > _WHOLE_BYTES:
                return None
            blocks.append(block)
    except SourceRefusedError as error:
        return error
    return blocks


def _read(task: FileTask, file: Fingerprint, threads: int) -> Iterator[ParsedBlock]:
    """The blocks of a file that is what its fingerprint says before and after they are read."""
    path = inside(Path(task.landing), [file.name])[0]
    _check_unchanged(path, file)
    try:
        yield from task.parser.read(path, Origin(task.source, task.batch, file.name), threads)
    except SourceRefusedError:
        _check_unchanged(path, file)  # a file that is still being written looks damaged; it is not refused
        raise
    _check_unchanged(path, file)


def _check_unchanged(path: Path, file: Fingerprint) -> None:
    try:
        status = path.stat()
    except FileNotFoundError:
        raise _ChangedError(file.name) from None
    if not file.same_stat(SourceFile(file.name, status.st_size, status.st_mtime_ns // 1_000_000)):
        raise _ChangedError(file.name)


class _RejectedRows:
    """Rejected rows, written to data files of the quarantine in bounded memory."""

    def __init__(self, task: FileTask) -> None:
        self._target = task.quarantine
        self._names = quarantine_schema(task.parser.schema).names
        self._pending: list[pa.Table] = []
        self._pending_bytes = 0
        self._files: list[pa.Table] = [_no_files()]

    def add(self, rows: pa.Table) -> None:
        if len(rows):
            self._pending.append(rows)
            self._pending_bytes += rows.nbytes
        if self._pending_bytes >= _REJECTED_BYTES:
            self._write()

    def finish(self) -> pa.Table:
        """Write the pending rows; returns the files table of all files."""
        if self._pending:
            self._write()
        return pa.concat_tables(self._files)

    def abort(self) -> None:
        delete_files(self._files, self._target.store)

    def _write(self) -> None:
        batches = pa.concat_tables(self._pending).combine_chunks().to_batches()
        self._pending, self._pending_bytes = [], 0
        self._files.append(write_rows(batches, self._names, self._target))


def _stage(task: FileTask, path: str, blocks: Iterator[tuple[str, ParsedBlock]]) -> str | None:
    """Write the valid rows of blocks to a Parquet file; returns its path, or None if there are no rows."""
    schema = staged_schema(task.parser.schema)
    writer = None
    with ExitStack() as stack:
        for name, block in blocks:
            rows = block.rows
            if not rows.num_rows:
                continue
            if writer is None:
                stream = stack.enter_context(task.target.store.open_output(path))
                writer = stack.enter_context(pq.ParquetWriter(stream, schema, compression="snappy"))
            names = pa.repeat(literal(name, pa.string()), rows.num_rows)
            writer.write_batch(pa.RecordBatch.from_arrays([*rows.columns, names, block.lines()], schema=schema))
    return None if writer is None else path
