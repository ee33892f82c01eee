"""Processes that start quickly: forked from a process that has imported everything and done nothing."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from typing import Any

_PRELOADED = [
    "deltalake",
    "duckdb",
    "lakehouse_lib.operations.optimize.compact",
    "lakehouse_lib.operations.dml.delete",
    "lakehouse_lib.operations.upkeep.vacuum",
    "lakehouse_lib.table.write",
    "tests.faults.scenes",
    "tests.faults.writer",
    "tests.peers",
]


def context() -> ForkServerContext:
    """The context of all processes of these tests."""
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(_PRELOADED)
    return forkserver


def in_a_process(scene: Callable[..., Any], *arguments: Any, seconds: float = 120) -> Any:
    """The result of ``scene`` in a separate process, which has its own mounts, user and clock.

    Raises:
        AssertionError: the scene failed, or gave no result after so many seconds.
    """
    receiver, sender = context().Pipe(duplex=False)
    process = context().Process(target=_play, args=(sender, scene, arguments), daemon=True)
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise AssertionError(f"{scene.__name__} had no answer after {seconds} s")
        try:
            kind, answer = receiver.recv()
        except EOFError:
            process.join()
            raise AssertionError(f"{scene.__name__} died with exit code {process.exitcode}") from None
    finally:
        process.kill()
        process.join()
        receiver.close()
    if kind == "failed":
        raise AssertionError(f"in {scene.__name__}:\n{answer}")
    return answer


def _play(answers: Connection, scene: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        answer = ("done", scene(*arguments))
    except BaseException:
        answer = ("failed", traceback.format_exc())
    answers.send(answer)
