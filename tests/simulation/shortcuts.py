"""Replacements of parts of the library in a run.

Threads run their work where it is started, so that the scheduler has all their calls. Parsed objects are remembered,
because they depend only on the bytes, so that actors need not parse them again.
"""

from __future__ import annotations

import concurrent.futures
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.checkpoint import part
from lakehouse_lib.log.checkpoint.footer.parquet_footer import chunk_statistics
from lakehouse_lib.log.commits import commit_file
from lakehouse_lib.log.commits.commit_file import parse_commit
from lakehouse_lib.transaction import commit_info

_engine = commit_info.engine_info


class _Inline:
    """An executor whose ``submit`` runs the work."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> _Inline:
        return self

    def __exit__(self, *_: object) -> None: ...

    def submit(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments, **named))
        except Exception as error:
            done.set_exception(error)
        return done

    def shutdown(self, *_: object, **__: object) -> None: ...


class _ReadOnce(pq.ParquetFile):  # type: ignore[misc]  # pyarrow is untyped
    """An object of a checkpoint, of which nothing is decoded twice."""

    def __init__(self, data: bytes) -> None:
        super().__init__(pa.BufferReader(data))
        self._groups: dict[tuple[int, tuple[str, ...]], pa.Table] = {}

    def read_row_group(self, i: int, columns: Sequence[str], **_: Any) -> pa.Table:
        key = (i, tuple(columns))
        if key not in self._groups:
            self._groups[key] = super().read_row_group(i, columns=columns, use_threads=False)
        return self._groups[key]


@dataclass(frozen=True)
class Memory:
    """The parsed content of bytes: commits, checkpoint objects, and their footers."""

    commits: dict[tuple[bytes, int], Any] = field(default_factory=dict)
    files: dict[bytes, _ReadOnce] = field(default_factory=dict)
    footers: dict[int, tuple[pq.FileMetaData, Any]] = field(default_factory=dict)


@contextmanager
def remembered(base: Memory | None = None) -> Iterator[Memory]:
    """Parse each object only once within the block. The library's own cache is empty at its beginning.

    Args:
        base: earlier parsed content, which is not changed.
    """
    memory = Memory() if base is None else Memory(dict(base.commits), dict(base.files), dict(base.footers))
    commits, files, footers = memory.commits, memory.files, memory.footers

    def parsed(data: bytes, version: int, table: str) -> Any:
        key = (data, version)
        if key not in commits:
            commits[key] = parse_commit(data, version, table)
        return commits[key]

    def opened(source: pa.NativeFile, metadata: pq.FileMetaData | None = None) -> _ReadOnce:
        data = source.read()
        if data not in files:
            files[data] = _ReadOnce(data)
        return files[data]

    def statistics(footer: pq.FileMetaData) -> Any:
        if id(footer) not in footers:
            footers[id(footer)] = footer, chunk_statistics(footer)
        return footers[id(footer)][1]

    replaced: list[tuple[Any, str, Any, Any]] = [
        (commit_file, "parse_commit", parse_commit, parsed),
        (pq, "ParquetFile", pq.ParquetFile, opened),
        (part, "chunk_statistics", chunk_statistics, statistics),
        (commit_info, "engine_info", _engine, _engine_once),
    ]
    replaced += [
        (module, "ThreadPoolExecutor", concurrent.futures.ThreadPoolExecutor, _Inline)
        for name, module in list(sys.modules.items())
        if name.startswith("lakehouse_lib.") and hasattr(module, "ThreadPoolExecutor")
    ]
    CACHE.clear()
    for where, name, _, remembering in replaced:
        setattr(where, name, remembering)
    try:
        yield memory
    finally:
        for where, name, original, _ in replaced:
            setattr(where, name, original)


@cache
def _engine_once() -> str:
    return _engine()
