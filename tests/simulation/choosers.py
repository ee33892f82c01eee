"""The choice of the next call and of its fault, by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.simulation.simulation import FASTEST_CLOCK, SLOWEST_CLOCK, Call, FaultPlan

_FINE = FaultPlan()
_CHANGES = ("put", "delete")


@dataclass(frozen=True)
class FaultRates:
    """The probability of each fault of a call.

    Attributes:
        lost: the call has no effect, and the answer is an error.
        unanswered: the call has its effect, and the answer is an error.
        late: the answer is an error, and the effect comes some time later.
        twice: the effect happens, the answer is lost, and the network repeats the call.
        outage: no call of the actor succeeds for a while.
        crash: the actor crashes before or after the call.
        stale: a listing does not show new objects.
        clock: the actor's clock is set back, set far ahead, or corrected.
    """

    lost: float = 0
    unanswered: float = 0
    late: float = 0
    twice: float = 0
    outage: float = 0
    crash: float = 0
    stale: float = 0
    clock: float = 0


NO_FAULTS = FaultRates()
RATES: tuple[tuple[int, FaultRates], ...] = (
    (4, NO_FAULTS),
    (3, FaultRates(lost=0.03, unanswered=0.03, late=0.02, twice=0.02, crash=0.003)),
    (1, FaultRates(unanswered=0.1, twice=0.1)),
    (1, FaultRates(late=0.08, lost=0.02, crash=0.02)),
    (2, FaultRates(outage=0.03, late=0.01)),
    (1, FaultRates(crash=0.03)),
    (2, FaultRates(stale=0.3, lost=0.01)),
    (1, FaultRates(clock=0.05, lost=0.01)),
    (
        2,
        FaultRates(lost=0.01, unanswered=0.01, late=0.01, twice=0.01, outage=0.002, crash=0.003, stale=0.1, clock=0.01),
    ),
)


class Seeded:
    """A chooser that makes all choices by a seed.

    Args:
        seed: the same seed gives the same run.
        fault_rates: the faults that may happen; it may be changed during the run.

    There are three kinds of order: a random actor for each call; mostly the same actor as before; or the actor with the
    highest rank, which sometimes loses its rank. The last kind finds bugs that need few switches at the right calls. In
    some orders, an actor that is about to change something waits while others make up to sixty calls, so the state that
    it has read may be gone.
    """

    def __init__(self, seed: int | str, fault_rates: FaultRates) -> None:
        self._random = random.Random(f"{seed} order")
        self.fault_rates = fault_rates
        self._staying = self._random.choice((None, 0.0, 0.5, 0.9))  # None: by rank
        self._demoting = self._random.choice((0.02, 0.1, 0.3))
        self._ranks: dict[str, float] = {}
        self._pausing = self._random.choice((0, 0, 0.05, 0.2))
        self._paused: dict[str, int] = {}
        self._last = ""
        self._out: dict[str, int] = {}

    def actor(self, calls: list[Call]) -> int:
        if not self._pausing or len(calls) == 1:
            return self._chosen(calls)
        awake = [number for number, call in enumerate(calls) if not self._paused.get(call.actor)]
        while len(awake) > 1:
            chosen = awake[self._chosen([calls[number] for number in awake])]
            call = calls[chosen]
            if call.verb not in _CHANGES or self._random.random() >= self._pausing:
                break
            self._paused[call.actor] = int(60 * self._random.random())
            awake.remove(chosen)
        else:
            chosen = awake[0] if awake else self._chosen(calls)
        self._paused = {name: left - 1 for name, left in self._paused.items() if left > 1}
        return chosen

    def _chosen(self, calls: list[Call]) -> int:
        if len(calls) == 1:
            return 0
        chance = self._random.random
        if self._staying is None:
            for call in calls:
                if call.actor not in self._ranks:
                    self._ranks[call.actor] = chance()
            first = max(range(len(calls)), key=lambda number: self._ranks[calls[number].actor])
            if chance() < self._demoting:
                self._ranks[calls[first].actor] = min(self._ranks.values()) - 1
            return first
        if chance() < self._staying:
            for number, call in enumerate(calls):
                if call.actor == self._last:
                    return number
        chosen = int(chance() * len(calls))
        self._last = calls[chosen].actor
        return chosen

    def fault_plan(self, call: Call) -> FaultPlan:
        fault_rates = self.fault_rates
        if fault_rates is NO_FAULTS:
            return _FINE
        chance = self._random.random
        out = self._out.get(call.actor, 0)
        if out:
            self._out[call.actor] = out - 1
            return FaultPlan(int(chance() < 0.1), "error")
        roll = chance()
        changes = call.verb in _CHANGES
        if (roll := roll - fault_rates.lost) < 0:
            return FaultPlan(0, "error")
        if (roll := roll - fault_rates.unanswered) < 0:
            return FaultPlan(1, "error")
        if (roll := roll - fault_rates.late) < 0:
            return FaultPlan(0, "crash" if chance() < 0.2 else "error", late=changes)
        if (roll := roll - fault_rates.twice) < 0:
            return FaultPlan(2)
        if (roll := roll - fault_rates.outage) < 0:
            self._out[call.actor] = int(5 + 55 * chance())
            return FaultPlan(int(chance() < 0.5), "error")
        if (roll := roll - fault_rates.crash) < 0:
            return FaultPlan(int(chance() < 0.5), "crash")
        if call.verb == "list" and (roll := roll - fault_rates.stale) < 0:
            return FaultPlan(stale=1000 * chance(), some=int(1000 * chance()) if chance() < 0.5 else 0)
        if roll - fault_rates.clock < 0:
            way = chance()
            return FaultPlan(
                clock=-FASTEST_CLOCK * chance() if way < 0.2 else SLOWEST_CLOCK * chance() if way < 0.7 else 0
            )
        return _FINE
