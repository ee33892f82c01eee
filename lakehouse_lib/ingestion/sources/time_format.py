"""The format of dates and times in text, as a pattern of Spark such as ``dd.MM.yyyy HH:mm``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lakehouse_lib.errors import InvalidArgumentError

#: A repeated letter of a pattern -> the regular expression of its text. ``_part`` handles ``S`` and ``X``.
_DIGITS = {
    "yyyy": r"(\d{4})",
    "yy": r"(\d{2})",
    **dict.fromkeys("MdHms", r"(\d{1,2})"),
    **{letter * 2: r"(\d{2})" for letter in "MdHms"},
}
_ZONE = r"(Z|[+-]\d{2}(?::?\d{2})?)"
_MOST_FRACTION = 6
_TOKENS = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


@dataclass(frozen=True)
class TimeFormat:
    """A pattern of dates and times.

    Attributes:
        pattern: ``yyyy`` or ``yy`` (2000 to 2099), ``MM``, ``dd``, ``HH``, ``mm``, ``ss``, ``S`` for each digit of a
            fraction, ``X`` for a zone, text in single quotes, and other signs. ``M``, ``d``, ``H``, ``m`` and ``s`` are
            one or two digits.

    Raises:
        InvalidArgumentError: the pattern has other letters, a letter twice, no year, month or day, or a gap in the
            time, such as minutes without hours.
    """

    pattern: str

    def __post_init__(self) -> None:
        parts = self._parts()
        letters = [letter for letter, _, _ in parts if letter]
        needed = {"H": "yMd", "m": "H", "s": "m", "S": "s", "X": "H"}
        missing = [each for letter in letters for each in needed.get(letter, "") if each not in letters]
        if len(set(letters)) < len(letters) or missing or not set("yMd") <= set(letters):
            raise self._error("; expected a year, a month and a day, each once, and no gap in the time")

    @property
    def has_time(self) -> bool:
        """Whether the texts have an hour."""
        return any(letter == "H" for letter, _, _ in self._parts())

    @property
    def regex(self) -> str:
        """A regular expression that matches the whole text; each letter is a group."""
        return "^" + "".join(regex for _, _, regex in self._parts()) + "$"

    @property
    def iso(self) -> str:
        """The replacement that makes a text ISO 8601, except for superfluous zeros.

        A zero precedes each month, day, hour, minute and second, also if it has two digits.
        """
        groups = {letter: (group, text) for group, (letter, text) in enumerate(self._letters(), 1)}

        def digits(letter: str) -> str:
            return f"0\\{groups[letter][0]}" if letter in groups else "00"

        year, text = groups["y"]
        date = f"{'20' if text == 'yy' else ''}\\{year}-{digits('M')}-{digits('d')}"
        if not self.has_time:
            return date
        fraction = f".\\{groups['S'][0]}" if "S" in groups else ""
        zone = f"\\{groups['X'][0]}" if "X" in groups else ""
        return f"{date}T{digits('H')}:{digits('m')}:{digits('s')}{fraction}{zone}"

    def _letters(self) -> list[tuple[str, str]]:
        return [(letter, text) for letter, text, _ in self._parts() if letter]

    def _parts(self) -> list[tuple[str, str, str]]:
        """The parts of the pattern: the letter, "" for other text; the text; its regular expression."""
        parts, place = [], 0
        while place < len(self.pattern):
            token = _TOKENS.match(self.pattern, place)
            if token is None:
                raise self._error("; expected a second quote after the first")
            parts.append(self._part(token))
            place = token.end()
        return parts

    def _part(self, token: re.Match[str]) -> tuple[str, str, str]:
        text, letter = token[0], token[2]
        if not letter:
            plain = text if token[1] is None else token[1].replace("''", "'") or "'"
            return "", text, re.escape(plain)
        if letter == "X" and len(text) <= 3:
            return letter, text, _ZONE
        if letter == "S" and len(text) <= _MOST_FRACTION:
            return letter, text, rf"(\d{{{len(text)}}})"
        if text not in _DIGITS:
            raise self._error(f", which has {text}; expected yyyy, yy, MM, dd, HH, mm, ss, S, X and text in quotes")
        return letter, text, _DIGITS[text]

    def _error(self, problem: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"the time format is {self.pattern!r}{problem}",
            hint="Write a pattern such as dd.MM.yyyy, or yyyy-MM-dd'T'HH:mm:ss.SSSX",
            code="DELTA_INVALID_SOURCE",
        )
