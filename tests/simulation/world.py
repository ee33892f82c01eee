"""Actors that run real code and stop at every call of the store, clocks of their own, and who goes on next.

An actor is a greenlet that stands for a process. Between two calls it touches nothing that others see, so the order of
calls and what becomes of each is all there is to choose; whoever chooses (a seed, a search) replays the run.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn, Protocol

from greenlet import greenlet

_BEGINNING = 1_700_000_000_000.0  # ms since the epoch
_CALL_MS = 5.0

#: Minutes by which a clock may be behind, ms.
SLOWEST_CLOCK = 600_000

#: By which one may be ahead, ms.
FASTEST_CLOCK = 400 * 86_400_000


class Call(NamedTuple):
    """A call that an actor is about to make."""

    actor: str
    verb: str
    path: str


class Fate(NamedTuple):
    """What becomes of a call.

    Attributes:
        effect: how often the store does it.
        answer: "result", "error" (lost, throttled) or "death" of the caller.
        late: the store does it some time after the caller has its error, or is dead.
        stale: a listing leaves out what is younger than so many ms, and shows what was deleted since.
        some: of those only about every second one; which ones depends on the number. 0: all of them.
        clock: from now on the caller's clock is so many ms behind, or ahead by as many below 0.
    """

    effect: int = 1
    answer: str = "result"
    late: bool = False
    stale: float = 0
    some: int = 0
    clock: float | None = None


class Chooser(Protocol):
    """Decides everything that is left open."""

    def actor(self, calls: list[Call]) -> int:
        """Which of the waiting calls is next."""

    def fate(self, call: Call) -> Fate: ...


class Death(BaseException):
    """The process is gone; not an ``Exception``, for nothing may handle it."""


class Step(NamedTuple):
    """A call that was let through, and what became of it."""

    call: Call
    fate: Fate


class World:
    """Where a run takes place.

    Args:
        chooser: of its order and faults.
        seed: of identifiers and waits.
        has_time: calls and waits take time. Without it an actor's calls depend on nothing but what it is answered.

    Attributes:
        now: the store's clock, ms since the epoch; the actors' may be behind it, or ahead.
        history: every call, in the order in which they were let through.
    """

    def __init__(self, chooser: Chooser, seed: int | str = 0, *, has_time: bool = True) -> None:
        self.chooser = chooser
        self._has_time = has_time
        self.now = _BEGINNING
        self.history: list[Step] = []
        self._busy: set[str] = set()
        self._seed = seed
        self._chances: dict[str, random.Random] = {}
        self._behind: dict[str, float] = {}
        self._waiting: dict[str, tuple[greenlet, Call]] = {}
        self._late: list[tuple[Call, Callable[[], object]]] = []
        self._hub: greenlet | None = None
        self._dead: set[str] = set()
        self._at_work = ""

    def run(self, actors: Mapping[str, Callable[[], None]]) -> None:
        """Run the actors until all are done, then what the store is still to do. What one raises ends the run."""
        self._hub = greenlet.getcurrent()
        with self._own_time():
            try:
                for name, work in actors.items():
                    self._resume(name, greenlet(_mortal(work)), None)
                while self._waiting:
                    self._step()
                self.settle()
            finally:
                self._hub = None
                waiting, self._waiting = self._waiting, {}
                for runner, _ in waiting.values():
                    runner.throw(Death)

    def pause(self, call: Call) -> Fate:
        """Wait until the call is let through. Outside of a run, and in a thread of the library's, it is at once."""
        here = greenlet.getcurrent()
        if self._hub is None:
            if here.parent is not None:
                raise Death  # the run is over
            return Fate()
        if here.parent is not self._hub:
            return Fate()
        if self._at_work in self._dead:
            raise Death
        fate: Fate = self._hub.switch(call)
        return fate

    def was_ahead(self, actor: str, since: int) -> bool:
        """Whether its clock has been, from so many calls of all on."""
        told = [
            (number, step.fate.clock)
            for number, step in enumerate(self.history)
            if step.call.actor == actor and step.fate.clock is not None
        ]
        before = [clock for number, clock in told if number < since]
        return any(clock < 0 for clock in (*before[-1:], *(clock for number, clock in told if number >= since)))

    def die(self) -> NoReturn:
        """The end of who is at work; nothing that it would still do (``finally``) reaches the store."""
        self._dead.add(self._at_work)
        raise Death

    def later(self, call: Call, act: Callable[[], object]) -> None:
        """The store does this some time or other."""
        self._late.append((call._replace(actor=f"late {self._at_work}"), act))

    def settle(self) -> None:
        """Do what is still under way."""
        while self._late:
            self._do_late(0)

    def sleep_for_hours(self, hours: float) -> None:
        """Hours pass for all, unless somebody's files wait for their commit."""
        if not self._busy:
            self.settle()
            self.now += hours * 3_600_000

    @contextlib.contextmanager
    def at_once(self, actor: str) -> Iterator[None]:
        """No hours pass while the actor is in here."""
        self._busy.add(actor)
        try:
            yield
        finally:
            self._busy.discard(actor)

    def _step(self) -> None:
        names = sorted(self._waiting)
        calls = [self._waiting[one][1] for one in names] + [call for call, _ in self._late]
        chosen = self.chooser.actor(calls)
        if chosen >= len(names):
            self._do_late(chosen - len(names))
            return
        runner, call = self._waiting.pop(names[chosen])
        fate = self.chooser.fate(call)
        self.history.append(Step(call, fate))
        self._pass(_CALL_MS)
        if fate.clock is not None:
            self._behind[call.actor] = fate.clock
        self._resume(call.actor, runner, fate)

    def _do_late(self, number: int) -> None:
        call, act = self._late.pop(number)
        self.history.append(Step(call, Fate()))
        self._pass(_CALL_MS)
        act()

    def _pass(self, milliseconds: float) -> None:
        self.now += milliseconds * self._has_time

    def _resume(self, name: str, runner: greenlet, fate: Fate | None) -> None:
        self._at_work = name
        call = runner.switch() if fate is None else runner.switch(fate)
        if not runner.dead:
            self._waiting[name] = (runner, call._replace(actor=name))

    @contextlib.contextmanager
    def _own_time(self) -> Iterator[None]:
        """Nothing of the run depends on this machine's clock or chance."""
        steady = self.now

        def own() -> random.Random:
            """Chance of the actor's own, so that it does not depend on what others do meanwhile."""
            name = self._at_work
            if name not in self._chances:
                self._chances[name] = random.Random(f"{self._seed} {name}")
            return self._chances[name]

        def clock() -> float:
            return self.now - self._behind.get(self._at_work, 0)

        patches: list[tuple[Any, str, Any]] = [
            (time, "time", lambda: clock() / 1000),
            (time, "time_ns", lambda: int(clock()) * 1_000_000),
            (time, "monotonic", lambda: (self.now - steady) / 1000),
            (time, "sleep", lambda seconds: self._pass(seconds * 1000)),
            (uuid, "uuid4", lambda: uuid.UUID(int=own().getrandbits(128), version=4)),
            (random, "uniform", lambda low, high: own().uniform(low, high)),
            (random, "random", lambda: own().random()),
        ]
        originals = [getattr(module, name) for module, name, _ in patches]
        for (module, name, replacement), original in zip(patches, originals, strict=True):
            setattr(module, name, _in_this_thread(replacement, original))
        try:
            yield
        finally:
            for (module, name, _), original in zip(patches, originals, strict=True):
                setattr(module, name, original)


def _in_this_thread(ours: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Threads that others have left in this process wait by their own clock, and not by the world's."""
    here = threading.get_ident()
    return lambda *arguments: ours(*arguments) if threading.get_ident() == here else original(*arguments)


def _mortal(work: Callable[[], None]) -> Callable[[], None]:
    def live() -> None:
        with contextlib.suppress(Death):
            work()

    return live
