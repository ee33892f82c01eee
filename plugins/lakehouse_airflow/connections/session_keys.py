"""Keys of an AWS session, those of an assumed role kept in this process's memory until shortly before they expire.

A triggerer looks at tables for days. Were a role assumed anew at each look, each would ask the role's service, and new
keys are a new boto3 client.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from lakehouse_lib.threads import ProcessLock

_MOST_KEPT = 100
_RENEWED_BEFORE_SECONDS = 300.0


@dataclass(frozen=True)
class SessionKeys:
    """Attributes:
    keys: storage options. No text of the value shows them.
    region: None: the session has none.
    renew_at: when others are to be asked for, seconds since the epoch.
    """

    keys: dict[str, str] = field(repr=False)
    region: str | None
    renew_at: float = 0.0

    @classmethod
    def until(cls, expires: float, keys: dict[str, str], region: str | None) -> SessionKeys:
        """Renewed five minutes before it ``expires`` (seconds since the epoch), or a third of its life before."""
        life = expires - time.time()
        return cls(keys, region, expires - min(_RENEWED_BEFORE_SECONDS, life / 3))


# The process, because a child that was forked would wait for ever for what a thread of its parent is asking, and a
# digest of the inputs, because they hold secrets. What has failed is not in here.
_Key = tuple[int, bytes]
_answers: OrderedDict[_Key, Future[SessionKeys]] = OrderedDict()
_lock = ProcessLock()


def shared_keys(inputs: object, ask: Callable[[], SessionKeys]) -> SessionKeys:
    """Return the keys that ``ask`` gave for the same inputs, or ask again when they are to be renewed.

    Of threads that need it at once one asks, and the others wait for its answer. A failure is raised in each, and
    the next one asks again.

    Args:
        inputs: all that decides which keys are issued, as plain JSON values.
        ask: may raise anything, which is raised here.
    """
    key = (os.getpid(), hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).digest())
    answer, is_new = _answer(key)
    if is_new:
        try:
            answer.set_result(ask())
        except BaseException as error:
            with _lock:
                if _answers.get(key) is answer:
                    del _answers[key]
            answer.set_exception(error)
    return answer.result()


def _answer(key: _Key) -> tuple[Future[SessionKeys], bool]:
    """The answer for these inputs, awaited or there, or a new one; and whether it is new."""
    with _lock:
        answer = _answers.get(key)
        is_new = answer is None or (answer.done() and answer.result().renew_at <= time.time())
        if answer is None or is_new:
            answer = _answers[key] = Future()
        _answers.move_to_end(key)
        if len(_answers) > _MOST_KEPT:
            _answers.popitem(last=False)
        return answer, is_new
