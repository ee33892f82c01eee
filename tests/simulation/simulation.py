"""Actors that run real code and stop at every call of the store, clocks for each actor, and the choice of the next
call.

An actor is a greenlet that stands for a process. Between two calls it has no effect on others. So the order of calls
and the fault plan of each call are the only choices; the same choices (of a seed or a search) replay the run.
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

#: How far a clock may be behind, in ms.
SLOWEST_CLOCK = 600_000

#: How far a clock may be ahead, in ms.
FASTEST_CLOCK = 400 * 86_400_000


class Call(NamedTuple):
    """A call that an actor is about to make."""

    actor: str
    verb: str
    path: str


class FaultPlan(NamedTuple):
    """The fault of a call, if any.

    Attributes:
        effect: how often the store executes it.
        answer: "result", "error" (lost, throttled) or "crash" of the caller.
        late: the store executes it some time after the caller's error or crash.
        stale: a listing shows the state of so many ms ago: it lacks newer objects, and has objects deleted since.
        some: if not 0, this applies only to about half of these objects, chosen by this number.
        clock: from now on the caller's clock is so many ms behind; negative: ahead.
    """

    effect: int = 1
    answer: str = "result"
    late: bool = False
    stale: float = 0
    some: int = 0
    clock: float | None = None


class Chooser(Protocol):
    """The source of all choices."""

    def actor(self, calls: list[Call]) -> int:
        """The actor whose waiting call is next."""

    def fault_plan(self, call: Call) -> FaultPlan: ...


class Crash(BaseException):
    """The end of a process; not an ``Exception``, because no code may handle it."""


class Step(NamedTuple):
    """A call that was executed, and its fault plan."""

    call: Call
    fault_plan: FaultPlan


class Simulation:
    """One run of actors.

    Args:
        chooser: chooses the order and the faults.
        seed: seed of identifiers and waits.
        has_time: calls and waits take time. Without it, an actor's calls depend only on its answers.

    Attributes:
        now: the store's clock, ms since the epoch; the actors' clocks may be behind or ahead.
        history: every call in order.
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
        self._crashed: set[str] = set()
        self._at_work = ""

    def run(self, actors: Mapping[str, Callable[[], None]]) -> None:
        """Run the actors until all are done, then the late calls of the store. An error of an actor ends the run."""
        self._hub = greenlet.getcurrent()
        with self._own_time():
            try:
                for name, work in actors.items():
                    self._resume(name, greenlet(_until_crash(work)), None)
                while self._waiting:
                    self._step()
                self.settle()
            finally:
                self._hub = None
                waiting, self._waiting = self._waiting, {}
                for runner, _ in waiting.values():
                    runner.throw(Crash)

    def pause(self, call: Call) -> FaultPlan:
        """Wait until the call is executed. Outside of a run, and in a thread of the library, do not wait."""
        here = greenlet.getcurrent()
        if self._hub is None:
            if here.parent is not None:
                raise Crash  # the run is over
            return FaultPlan()
        if here.parent is not self._hub:
            return FaultPlan()
        if self._at_work in self._crashed:
            raise Crash
        fault_plan: FaultPlan = self._hub.switch(call)
        return fault_plan

    def was_ahead(self, actor: str, since: int) -> bool:
        """Whether the actor's clock was ahead since the call with this number."""
        clocks = [
            (number, step.fault_plan.clock)
            for number, step in enumerate(self.history)
            if step.call.actor == actor and step.fault_plan.clock is not None
        ]
        before = [clock for number, clock in clocks if number < since]
        return any(clock < 0 for clock in (*before[-1:], *(clock for number, clock in clocks if number >= since)))

    def crash(self) -> NoReturn:
        """End the present actor; its later calls (in ``finally``) do not reach the store."""
        self._crashed.add(self._at_work)
        raise Crash

    def later(self, call: Call, act: Callable[[], object]) -> None:
        """Let the store execute this at some later time."""
        self._late.append((call._replace(actor=f"late {self._at_work}"), act))

    def settle(self) -> None:
        """Execute all late calls."""
        while self._late:
            self._do_late(0)

    def sleep_for_hours(self, hours: float) -> None:
        """Let hours pass for all actors, unless an actor's files wait for their commit."""
        if not self._busy:
            self.settle()
            self.now += hours * 3_600_000

    @contextlib.contextmanager
    def at_once(self, actor: str) -> Iterator[None]:
        """No hours pass while the actor is in the block."""
        self._busy.add(actor)
        try:
            yield
        finally:
            self._busy.discard(actor)

    def _step(self) -> None:
        names = sorted(self._waiting)
        calls = [self._waiting[name][1] for name in names] + [call for call, _ in self._late]
        chosen = self.chooser.actor(calls)
        if chosen >= len(names):
            self._do_late(chosen - len(names))
            return
        runner, call = self._waiting.pop(names[chosen])
        fault_plan = self.chooser.fault_plan(call)
        self.history.append(Step(call, fault_plan))
        self._pass(_CALL_MS)
        if fault_plan.clock is not None:
            self._behind[call.actor] = fault_plan.clock
        self._resume(call.actor, runner, fault_plan)

    def _do_late(self, number: int) -> None:
        call, act = self._late.pop(number)
        self.history.append(Step(call, FaultPlan()))
        self._pass(_CALL_MS)
        act()

    def _pass(self, milliseconds: float) -> None:
        self.now += milliseconds * self._has_time

    def _resume(self, name: str, runner: greenlet, fault_plan: FaultPlan | None) -> None:
        self._at_work = name
        call = runner.switch() if fault_plan is None else runner.switch(fault_plan)
        if not runner.dead:
            self._waiting[name] = (runner, call._replace(actor=name))

    @contextlib.contextmanager
    def _own_time(self) -> Iterator[None]:
        """Replace the machine's clock and random numbers for the run."""
        steady = self.now

        def own() -> random.Random:
            """Random numbers of the actor, which do not depend on other actors."""
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


def _in_this_thread(replacement: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Threads of earlier tests in this process keep the real clock."""
    here = threading.get_ident()
    return lambda *arguments: replacement(*arguments) if threading.get_ident() == here else original(*arguments)


def _until_crash(work: Callable[[], None]) -> Callable[[], None]:
    def live() -> None:
        with contextlib.suppress(Crash):
            work()

    return live
