"""Find regular expressions for which Java, where Spark evaluates them, may take hours.

RE2, by which ``gate`` judges on Arrow, takes linear time for every pattern. Java tries all ways in which a pattern can
match a text. Their number grows fast if a repeated group can match a text in several ways. This module refuses such
groups: in each repeated group, the next character must decide how the match continues. Possessive quantifiers and
atomic groups match in one way.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from typing import Any

from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.errors import QualityError

_TOKEN = re.compile(
    r"""\\Q.*?(?:\\E|$) | \\(?:[pP]\{\w+\}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)
        | \[\^?\]?(?:\\.|\[[^\]]*\]|[^\]\\])*\] | \((?:\?(?:<?[=!]|[:>]|<\w+>|[\w-]*[:)]))? | . """,
    re.DOTALL | re.VERBOSE,
)
_QUANTIFIER = re.compile(r"(?:([*?+])|\{(\d+)(,?)(\d*)\})([?+]?)")
#: A group that is repeated at most this often may match in several ways.
_FEW = 3
#: A pattern with more levels of groups is refused, as if it were ambiguous.
_MOST_LEVELS = 100
_ANY = 1 << 129
_ALL = (1 << 130) - 1
_NO_WIDTH = ("^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z", r"\G")
_IN_SQL = re.compile(r"rlike|regexp", re.IGNORECASE)
_WORD = re.compile(r"[\w ,;:/@%&=<>~#\"'-]{0,100}")
_SQL_TEXT = re.compile(r"""'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)\"""", re.DOTALL)


@dataclass(frozen=True)
class _Part:
    """A part of a pattern. Sets of characters are bits of an integer: ASCII, and a bit for all other characters.

    Attributes:
        first: the characters with which its text may start.
        ends: by number, for each character of the pattern that may match last, the characters that may follow it.
        is_empty: whether it matches the empty text.
        is_ambiguous: whether a text has several matches that the next character does not tell apart.
        times: how often its groups are repeated, if each is repeated a limited number of times.
    """

    first: int = 0
    ends: Mapping[int, int] = field(default_factory=dict)
    is_empty: bool = True
    is_ambiguous: bool = False
    times: int = 1

    def then(self, part: _Part) -> _Part:
        """This part, followed by another one."""
        ambiguous = self.is_ambiguous or part.is_ambiguous or bool(self.is_empty and self.first & part.first)
        ambiguous |= any(following & part.first for following in self.ends.values())
        ends = dict(part.ends)
        if part.is_empty:
            ends |= {number: following | part.first for number, following in self.ends.items()}
        first = self.first | part.first if self.is_empty else self.first
        return _Part(first, ends, self.is_empty and part.is_empty, ambiguous, max(self.times, part.times))

    def either(self, part: _Part) -> _Part:
        """This part or another one."""
        ambiguous = self.is_ambiguous or part.is_ambiguous
        ambiguous |= bool(self.first & part.first) or (self.is_empty and part.is_empty)
        is_empty = self.is_empty or part.is_empty
        ends = {**self.ends, **part.ends}
        return _Part(self.first | part.first, ends, is_empty, ambiguous, max(self.times, part.times))

    def repeated(self) -> _Part:
        """This part, at least once."""
        ambiguous = self.is_ambiguous or self.is_empty or any(after & self.first for after in self.ends.values())
        ends = {number: following | self.first for number, following in self.ends.items()}
        return replace(self, ends=ends, is_ambiguous=ambiguous)


class _Reader:
    """Reads a pattern from its start; ``is_runaway`` is true after a repeated group that is ambiguous."""

    def __init__(self, pattern: str) -> None:
        self.is_runaway = False
        self._pattern = pattern
        self._place = 0
        self._ends = 0

    def alternatives(self, depth: int = 0) -> _Part:
        """The part up to the end of its group."""
        if depth > _MOST_LEVELS:
            self.is_runaway = True
            return _Part()
        branches, part, start = list[_Part](), _Part(), self._place
        while token := _TOKEN.match(self._pattern, self._place):
            text = token[0]
            if text == ")" and depth:
                break
            self._place = token.end()
            if text == "|":
                branches, part = [*branches, part], _Part()
            else:
                part = part.then(self._quantified(self._atom(text, depth), text))
        words = self._pattern[start : self._place].lower().split("|")
        if branches and all(map(_WORD.fullmatch, words)) and len(set(words)) == len(words):
            return self._one_of(words)
        for branch in reversed(branches):
            part = branch.either(part)
        return part

    def _one_of(self, words: Sequence[str]) -> _Part:
        """One of several words. The next character decides between words with the same start, such as AT and AU."""
        tails: dict[str, list[str]] = {}
        for word in filter(None, words):
            tails.setdefault(word[0], []).append(word[1:])
        parts = [self._character(re.escape(first)).then(self._one_of(rest)) for first, rest in tails.items()]
        part = reduce(_Part.either, parts) if parts else _Part()
        return replace(part, is_empty="" in words)

    def _atom(self, text: str, depth: int) -> _Part:
        if text.startswith("(") and not text.endswith(")"):
            part = self.alternatives(depth + 1)
            self._place += 1
            if text.endswith(("=", "!")):
                return _Part()
            return self._in_one_way(part) if text == "(?>" else part
        if text in _NO_WIDTH or text.startswith("("):  # such as (?i)
            return _Part()
        if text.startswith(r"\Q"):
            part = _Part()
            for character in text[2:].removesuffix(r"\E"):
                part = part.then(self._character(re.escape(character)))
            return part
        return self._character(text)

    def _quantified(self, part: _Part, text: str) -> _Part:
        quantifier = _QUANTIFIER.match(self._pattern, self._place)
        if quantifier is None:
            return part
        self._place = quantifier.end()
        symbol, least, comma, most, kind = quantifier.groups()
        is_optional = symbol in ("*", "?") or (symbol is None and not int(least))
        is_endless = symbol in ("*", "+") or (bool(comma) and not most)
        count = 0 if is_endless else 1 if symbol else int(most or least)
        if kind == "+":
            part = self._in_one_way(part)
        elif is_endless or count > 1:
            is_exact = not is_endless and not (comma and most and most != least)
            is_group = text.startswith("(")
            loop = part.repeated()
            times = part.times * count if is_group else part.times
            self.is_runaway |= is_group and loop.is_ambiguous and (is_endless or times > _FEW)
            # The last of an exact number of characters is not followed by another one.
            part = replace(part if is_exact and not is_group else loop, times=times)
        if is_optional:
            part = replace(part, is_empty=True, is_ambiguous=part.is_ambiguous or part.is_empty)
        return part

    def _character(self, text: str) -> _Part:
        self._ends += 1
        return _Part(_characters(text), {self._ends: 0}, is_empty=False)

    def _in_one_way(self, part: _Part) -> _Part:
        """A part that is not tried in other ways after it has matched."""
        self._ends += 1
        return _Part(part.first, {self._ends: 0}, part.is_empty)


@lru_cache(1000)
def _characters(token: str) -> int:
    """The characters that a token matches, ignoring case; all characters if the token is not one of Python, too."""
    is_class = token.startswith("[")
    if len(token) > 1 and (re.search(r"&&|\[.*\[|\\[^dDwWsStnrf\W]", token, re.DOTALL)):
        return _ALL
    try:
        pattern = re.compile(token, re.ASCII | re.IGNORECASE | re.DOTALL)
    except re.error:
        return _ALL
    bits = sum(1 << code for code in range(128) if pattern.fullmatch(chr(code)))
    is_other = not token.isascii() or pattern.fullmatch("\U0010ffff") is not None
    return bits | (_ANY if is_other or (is_class and "^" in token) else 0)


def check_patterns(rules: Iterable[Rule]) -> None:
    """Refuse rules with a pattern for which Java may take hours.

    Raises:
        QualityError: a rule has such a pattern.
    """
    for rule in rules:
        listed = rule.arguments.get("regex_list")
        patterns = [rule.arguments.get("regex"), *(listed if isinstance(listed, list) else ())]
        for pattern in [*patterns, *_patterns_of_sql(rule.arguments.get("row_condition"))]:
            if isinstance(pattern, str) and is_runaway(pattern):
                raise QualityError(
                    f"the rule {rule.id} has the pattern {pattern}, which repeats a group that can match a text in "
                    "several ways and may take hours; expected a pattern in which the next character decides",
                    hint="Write a+ instead of (a+)+ or (a|aa)+, or make the inner part possessive: (a++)+",
                )


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


def is_runaway(pattern: str) -> bool:
    """Whether a pattern repeats a group that can match a text in several ways, as ``(a+)+`` or ``(a|aa)*`` do.

    A group that is repeated at most three times is allowed, and so is ``(\\w+\\.)+``.
    """
    reader = _Reader(pattern)
    reader.alternatives()
    return reader.is_runaway
