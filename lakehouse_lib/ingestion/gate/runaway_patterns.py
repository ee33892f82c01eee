"""Find regular expressions that may take exponential time in Java, where Spark evaluates them.

RE2, by which ``gate`` judges on Arrow, takes linear time for every pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.errors import QualityError

_TOKEN = re.compile(
    r"""\\Q.*?(?:\\E|$) | \\. | \[\^?\]?(?:\\.|\[[^\]]*\]|[^\]\\])*\]
        | \((?:\?(?:<?[=!]|[:>]|<\w+>|[\w-]*[:)]))? | . """,
    re.DOTALL | re.VERBOSE,
)
_QUANTIFIER = re.compile(r"(?:([*?+])|\{(\d*)(,?)(\d*)\})([?+]?)")


@dataclass
class _Branch:
    """A branch of a group.

    Attributes:
        repeats: whether a part of it is repeated without a limit.
        must_match: whether a part without such a repetition must match.
    """

    repeats: bool = False
    must_match: bool = False

    @property
    def is_ambiguous(self) -> bool:
        return self.repeats and not self.must_match


def check_patterns(rules: Iterable[Rule]) -> None:
    """Refuse rules with a pattern that repeats a repetition.

    Raises:
        QualityError: a rule has such a pattern.
    """
    for rule in rules:
        listed = rule.arguments.get("regex_list")
        for pattern in [rule.arguments.get("regex"), *(listed if isinstance(listed, list) else ())]:
            if isinstance(pattern, str) and repeats_a_repetition(pattern):
                raise QualityError(
                    f"the rule {rule.id} has the pattern {pattern}, which repeats a repetition and may take hours; "
                    "expected a pattern without one",
                    hint="Write a+ instead of (a+)+, or make the inner repetition possessive: (a++)+",
                )


def repeats_a_repetition(pattern: str) -> bool:
    """Whether a pattern repeats a group that is itself only a repetition, as ``(a+)+`` or ``(\\w+,?)*`` do.

    A text of n characters can be divided among the repetitions in 2^n ways, and Java tries all of them if the text does
    not match. Possessive quantifiers and atomic groups divide it in one way.
    """
    groups: list[tuple[str, list[_Branch]]] = [("(", [_Branch()])]
    place = 0
    while token := _TOKEN.match(pattern, place):
        text, place = token[0], token.end()
        is_ambiguous = False
        if text == "|":
            groups[-1][1].append(_Branch())
            continue
        if text.startswith("("):
            if not text.endswith(")"):  # such as (?i)
                groups.append((text, [_Branch()]))
            continue
        if text == ")" and len(groups) > 1:
            opening, branches = groups.pop()
            is_ambiguous = opening != "(?>" and any(branch.is_ambiguous for branch in branches)
            if opening.endswith(("=", "!")):
                continue
        branch = groups[-1][1][-1]
        quantifier = _QUANTIFIER.match(pattern, place)
        if quantifier is None:
            branch.repeats |= is_ambiguous
            branch.must_match |= not is_ambiguous and text not in ("^", "$", r"\b", r"\B", r"\A", r"\z", r"\Z")
            continue
        place = quantifier.end()
        branch.repeats |= is_ambiguous
        symbol, least, comma, most, kind = quantifier.groups()
        is_endless = symbol in ("*", "+") or (symbol is None and bool(comma) and not most)
        if kind == "+":
            branch.must_match |= symbol != "*" and symbol != "?"
        elif is_endless:
            if is_ambiguous:
                return True
            branch.repeats = True
        elif symbol is None and int(least or 0):
            branch.must_match = True
    return False
