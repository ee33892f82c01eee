"""Find regular expressions for which Java, where Spark evaluates them, may take exponential time.

RE2, by which ``gate`` judges on Arrow, takes linear time for every pattern. Java tries all ways in which a pattern can
match a text. If a repeated group matches some text in two ways, it matches n such texts in 2^n ways. This module
refuses exactly the patterns with such a group in their ``pattern_tree``. It accepts patterns such as ``.*.*x``, for
which the number of ways is a polynomial.

The test is that of Weber and Seidl (On the degree of ambiguity of finite automata, 1991) on the position automaton
(Glushkov) of the repeated group. Its states are the characters of the pattern. Each state is reachable from each other
state. Therefore the group matches some text in two ways if and only if two different paths match the same text, begin
at one state, and end at one state. Two paths differ, too, if they lead from one state to the next in two ways: in
``(a+)+``, each of the repetitions leads from ``a`` to ``a``.

Atomic groups and possessive quantifiers match in one way: paths that enter them together leave them together. Of paths
that enter them apart, each may leave after every text that the group matches.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.errors import QualityError
from lakehouse_lib.ingestion.gate.patterns.pattern_tree import (
    Alternatives,
    Assertion,
    Atomic,
    Characters,
    Part,
    PatternTooLargeError,
    Ranges,
    Repeat,
    Series,
    parse_pattern,
)

#: A group that is repeated at most this often may match in several ways.
_FEW = 3
#: The largest number of states of a repeated group.
_MOST_STATES = 2000
#: The largest number of steps of the search for two paths. They take about a second.
_MOST_STEPS = 1_000_000
_IN_SQL = re.compile(r"rlike|regexp", re.IGNORECASE)
_SQL_TEXT = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)


class _States(NamedTuple):
    """States, as bits, with the number of ways to reach each of them: at least one, and at least two ways."""

    once: int = 0
    twice: int = 0

    def plus(self, other: _States) -> _States:
        return _States(self.once | other.once, self.twice | other.twice | (self.once & other.once))

    def times(self, ways: int) -> _States:
        return self if ways == 1 else _States(self.once, self.once) if ways else _States()


class _Ends(NamedTuple):
    """The first and the last states of a part, and in how many ways it matches the empty text."""

    first: _States
    last: _States
    empty: int


class _Automaton:
    """The position automaton of a part of a pattern that is repeated without a limit.

    A loop ends after a repetition that matches the empty text, as in Java.
    """

    def __init__(self, part: Part) -> None:
        self._characters: list[Ranges] = []
        #: For each state, the states that follow it, in at least one and in at least two ways.
        self._next: list[int] = []
        self._next_twice: list[int] = []
        #: For each state in an atomic group: the states that follow it inside the group, and all states of the group.
        self._next_inside: list[int] = []
        self._group: list[int] = []
        ends = self._add(part)
        self._connect(ends.last, ends.first)

    def _add(self, part: Part) -> _Ends:
        match part:
            case Characters(ranges):
                return self._add_state(ranges)
            case Series(parts):
                return self._add_series(parts)
            case Alternatives(parts):
                branches = [self._add(branch) for branch in parts]
                first, last = _States(), _States()
                for branch in branches:
                    first, last = first.plus(branch.first), last.plus(branch.last)
                return _Ends(first, last, sum(branch.empty for branch in branches))
            case Assertion():
                return self._add_series(())
            case Atomic(inner):
                return self._add_atomic(inner)
            case Repeat(inner, least, most, True):
                return self._add_atomic(Repeat(inner, least, most))
            case Repeat():
                return self._add_repeat(part)

    def _add_state(self, ranges: Ranges) -> _Ends:
        if not ranges:
            return _Ends(_States(), _States(), 0)
        state = _States(1 << len(self._next))
        self._characters.append(ranges)
        self._next.append(0)
        self._next_twice.append(0)
        self._next_inside.append(0)
        self._group.append(state.once)
        return _Ends(state, state, 0)

    def _add_series(self, parts: Iterable[Part]) -> _Ends:
        first, last, empty = _States(), _States(), 1
        for part in parts:
            ends = self._add(part)
            self._connect(last, ends.first)
            first = first.plus(ends.first.times(empty))
            last = ends.last.plus(last.times(ends.empty))
            empty = min(empty * ends.empty, 2)
        return _Ends(first, last, empty)

    def _add_repeat(self, repeat: Repeat) -> _Ends:
        copies = max(repeat.least, 1) if repeat.most is None else repeat.most
        first, last, empty = _States(), _States(), int(not repeat.least)
        before = _States()
        for number in range(1, copies + 1):
            ends = self._add(repeat.part)
            if number == 1:
                first, empty = ends.first, empty + ends.empty
            self._connect(before, ends.first)
            # The loop ends here, or a repetition that matches the empty text follows.
            ways = int(number >= repeat.least) + (ends.empty if number < copies or repeat.most is None else 0)
            last = last.plus(ends.last.times(ways))
            before = ends.last
        if repeat.most is None:
            self._connect(before, ends.first)
        return _Ends(first, last, empty)

    def _add_atomic(self, part: Part) -> _Ends:
        start = len(self._next)
        ends = self._add(part)
        states = (1 << len(self._next)) - (1 << start)
        for state in range(start, len(self._next)):
            self._next_inside[state] |= self._next[state]
            self._next[state] = self._next_twice[state] = 0
            self._group[state] = states
        return _Ends(_States(ends.first.once), _States(ends.last.once), min(ends.empty, 1))

    def _connect(self, last: _States, first: _States) -> None:
        for state in _numbers(last.once):
            twice = first.once if last.twice >> state & 1 else first.twice
            self._next_twice[state] |= twice | (self._next[state] & first.once)
            self._next[state] |= first.once

    def is_ambiguous(self) -> bool:
        """Whether two different paths match the same text, begin at one state, and end at one state.

        Two paths that enter an atomic group together leave it together.

        Raises:
            PatternTooLargeError: the search takes too many steps.
        """
        if any(self._next_twice):
            return True
        overlaps = _overlaps(self._characters)
        following = [outside | inside for outside, inside in zip(self._next, self._next_inside, strict=True)]
        # The pairs of different states to which two paths lead, by the first state.
        pairs = [0] * len(following)
        for states in set(self._next):
            for state in _numbers(states):
                pairs[state] |= states & overlaps[state] & ~self._group[state]
        new = list(pairs)
        queue = deque(state for state, others in enumerate(pairs) if others)
        steps = 0
        while queue:
            state = queue.popleft()
            others, new[state] = new[state], 0
            after = 0
            for other in _numbers(others):
                after |= following[other]
            if after & following[state]:
                return True
            steps += others.bit_count() + following[state].bit_count()
            if steps > _MOST_STEPS:
                raise PatternTooLargeError("repeats a group that takes too many steps to check")
            for successor in _numbers(following[state]):
                added = after & overlaps[successor] & ~pairs[successor]
                if added:
                    if not new[successor]:
                        queue.append(successor)
                    new[successor] |= added
                    pairs[successor] |= added
        return False


def _numbers(states: int) -> Iterator[int]:
    while states:
        lowest = states & -states
        yield lowest.bit_length() - 1
        states ^= lowest


def _overlaps(characters: Sequence[Ranges]) -> list[int]:
    """For each state, the states that have a character in common with it."""
    bounds = sorted({bound for ranges in set(characters) for low, high in ranges for bound in (low, high + 1)})
    masks: dict[Ranges, int] = {}
    states: dict[Ranges, int] = {}
    for state, ranges in enumerate(characters):
        states[ranges] = states.get(ranges, 0) | 1 << state
    for ranges in states:
        masks[ranges] = 0
        for low, high in ranges:
            masks[ranges] |= (1 << bisect_left(bounds, high + 1)) - (1 << bisect_left(bounds, low))
    overlaps = {ranges: sum(states[other] for other in states if masks[ranges] & masks[other]) for ranges in states}
    return [overlaps[ranges] for ranges in characters]


def _repeated(part: Part, times: int = 1, *, is_repeated: bool = False) -> Iterator[Part]:
    """The groups that are repeated more than a few times, without those that are inside another such group.

    Args:
        times: how often the part is repeated.
        is_repeated: whether it is inside such a group. Then only the inner parts are left that are matched apart.
    """
    match part:
        case Series(parts) | Alternatives(parts):
            for inner in parts:
                yield from _repeated(inner, times, is_repeated=is_repeated)
        case Assertion(inner) | Atomic(inner) | Repeat(inner, _, _, True):
            yield from _repeated(inner)
        case Repeat(Characters()):
            pass
        case Repeat(inner, _, most):
            times = _FEW + 1 if most is None else min(times * most, _FEW + 1)
            if times > _FEW and not is_repeated:
                yield inner
            yield from _repeated(inner, times, is_repeated=is_repeated or times > _FEW)


def _size(part: Part) -> int:
    """The number of states of a part, and of parts without a state, which take time, too."""
    match part:
        case Series(parts) | Alternatives(parts):
            return max(sum(map(_size, parts)), 1)
        case Atomic(inner):
            return _size(inner)
        case Repeat(inner, least, most):
            return _size(inner) * max(least if most is None else most, 1)
        case _:
            return 1


def is_runaway(pattern: str) -> bool:
    """Whether a pattern repeats a group that matches some text in two ways, as ``(a+)+`` or ``(a|aa)*`` do.

    A group that is repeated at most three times may do so.

    Raises:
        PatternTooLargeError: the pattern is too large to be checked.
    """
    for part in _repeated(parse_pattern(pattern)):
        if _size(part) > _MOST_STATES:
            raise PatternTooLargeError(f"repeats a group that has more than {_MOST_STATES} characters with its counts")
        if _Automaton(part).is_ambiguous():
            return True
    return False


def check_patterns(rules: Iterable[Rule]) -> None:
    """Refuse rules with a pattern for which Java may take hours, or which is too large to be checked.

    Raises:
        QualityError: a rule has such a pattern.
    """
    for rule in rules:
        listed = rule.arguments.get("regex_list")
        patterns = [rule.arguments.get("regex"), *(listed if isinstance(listed, list) else ())]
        for pattern in [*patterns, *_patterns_of_sql(rule.arguments.get("row_condition"))]:
            if isinstance(pattern, str):
                _check_pattern(pattern, rule)


def _check_pattern(pattern: str, rule: Rule) -> None:
    subject = f"the rule {rule.id} has the pattern {pattern}"
    try:
        if is_runaway(pattern):
            raise QualityError(
                f"{subject}, which repeats a group that matches some text in several ways and may take hours; expected "
                "a group that matches each text in one way",
                hint="Write a+ instead of (a+)+ or (a|aa)+, or make the inner part possessive: (a++)+",
            )
    except PatternTooLargeError as error:
        raise QualityError(
            f"{subject}, which {error}; expected a pattern that can be checked for exponential time",
            hint="Make the counts in the group smaller: [a-z]{1,5} counts as five characters",
        ) from None


def _patterns_of_sql(condition: Any) -> Iterator[str]:
    """The texts in a condition that has a function of regular expressions."""
    if isinstance(condition, Mapping):
        condition = [*condition.values()]
    if isinstance(condition, list):
        for part in condition:
            yield from _patterns_of_sql(part)
    elif isinstance(condition, str) and _IN_SQL.search(condition):
        for match in _SQL_TEXT.finditer(condition):
            text = match[1] if match[1] is not None else match[2]
            yield from (text, text.replace("\\\\", "\\"))  # raw texts keep their backslashes
