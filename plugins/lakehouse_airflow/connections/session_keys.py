"""A cache of the keys of assumed AWS roles, in the memory of this process, until shortly before the keys expire.

A triggerer polls tables for days. Without the cache, each poll would call STS, and new keys would need a new boto3
client.
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
    """The keys and region of an AWS session.

    Attributes:
        keys: storage options; ``repr`` leaves them out.
        region: the session's region, or None.
        renew_at: the time from which new keys are needed, in seconds since the epoch.
    """

    keys: dict[str, str] = field(repr=False)
    region: str | None
    renew_at: float = 0.0

    @classmethod
    def until(cls, expires: float, keys: dict[str, str], region: str | None) -> SessionKeys:
        """Keys that are renewed five minutes, or a third of their life if that is shorter, before ``expires``.

        Args:
            expires: seconds since the epoch.
        """
        life = expires - time.time()
        return cls(keys, region, expires - min(_RENEWED_BEFORE_SECONDS, life / 3))


# The key of the cache: the process id and a digest of the inputs. The process id, because a forked child must not wait
# for a request of its parent's thread. A digest, because the inputs have secrets.
_Key = tuple[int, bytes]
#: The answers of STS, pending or done. Failed requests are removed.
_answers: OrderedDict[_Key, Future[SessionKeys]] = OrderedDict()
_lock = ProcessLock()


def shared_keys(inputs: object, ask: Callable[[], SessionKeys]) -> SessionKeys:
    """The cached keys for the same inputs. If there are none, or if they must be renewed, ``ask`` returns new keys.

    If several threads need the same keys, one thread calls ``ask``, and the other threads wait for the result. An error
    is raised in each of these threads and is not cached.

    Args:
        inputs: all values on which the keys depend, as plain JSON values.
        ask: returns new keys; its errors are raised here.
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
    """The cached answer for these inputs, pending or done, or else a new answer; and whether the answer is new."""
    with _lock:
        answer = _answers.get(key)
        is_new = answer is None or (answer.done() and answer.result().renew_at <= time.time())
        if answer is None or is_new:
            answer = _answers[key] = Future()
        _answers.move_to_end(key)
        if len(_answers) > _MOST_KEPT:
            _answers.popitem(last=False)
        return answer, is_new
