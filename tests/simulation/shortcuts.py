"""What the library does in a run without being asked: threads work where they are started, so that the scheduler has
every call of theirs; and what is made of bytes depends on nothing else, and need not be made again for every actor."""

from __future__ import annotations

import concurrent.futures
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.log import commit
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.checkpoints import part
from lakehouse_lib.log.checkpoints.footer import chunk_statistics
from lakehouse_lib.log.commit import parse_commit
from lakehouse_lib.transaction import optimistic

_engine = optimistic._engine


class _Inline:
    """An executor that has done the work when ``submit`` returns."""

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

    def map(self, work: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        return iter([work(*arguments) for arguments in zip(*items, strict=False)])

    def shutdown(self, *_: object, **__: object) -> None: ...


@contextmanager
def remembered() -> Iterator[None]:
    """What is parsed within is parsed once. Begins with nothing in the library's own cache."""
    commits: dict[tuple[bytes, int], Any] = {}
    footers: dict[bytes, Any] = {}

    def parsed(data: bytes, version: int, table: str) -> Any:
        key = (data, version)
        if key not in commits:
            commits[key] = parse_commit(data, version, table)
        return commits[key]

    def statistics(footer: pq.FileMetaData) -> Any:
        sink = pa.BufferOutputStream()
        footer.write_metadata_file(sink)
        key = sink.getvalue().to_pybytes()
        if key not in footers:
            footers[key] = chunk_statistics(footer)
        return footers[key]

    replaced: list[tuple[Any, str, Any, Any]] = [
        (commit, "parse_commit", parse_commit, parsed),
        (part, "chunk_statistics", chunk_statistics, statistics),
        (optimistic, "_engine", _engine, _engine_once),
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
        yield
    finally:
        for where, name, original, _ in replaced:
            setattr(where, name, original)


@cache
def _engine_once() -> str:
    return _engine()
