"""Regular expressions of Java as trees, for the search for patterns that take exponential time.

A tree matches at least the texts that the pattern matches. These tokens match more texts than in Java:

- Zero-width assertions (look-around, ``^``, ``$``, ``\\b``) hold everywhere.
- A back-reference matches every text, and so do ``\\R`` and ``\\X``.
- Outside ASCII, ``\\p{L}`` and other classes of Unicode have all characters, and so have ``\\h`` and ``\\v``. With the
  flags ``u`` and ``U``, other tokens have all of these characters, too.
- An intersection of classes, and a class in a class, have all characters.

A pattern that is not valid has a tree, too: Spark refuses the pattern.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

#: Characters, as ranges of code points: the first and the last of each range.
Ranges = tuple[tuple[int, int], ...]

_LAST = 0x10FFFF
_ALL: Ranges = ((0, _LAST),)
_OUTSIDE_ASCII: Ranges = ((128, _LAST),)
#: A pattern with more levels of groups is too large.
_MOST_LEVELS = 100
_TOKEN = re.compile(
    r"""\\(?:[pPN](?:\{[^}]*\}|.) | x(?:[0-9a-fA-F]{2}|\{[0-9a-fA-F]+\}) | u[0-9a-fA-F]{4} | 0[0-3]?[0-7]{1,2} | c.
        | k<\w*> | [1-9]\d* | b\{g\} | .) | \((?:\?(?:<?[=!]|[:>]|<\w+>|[\w-]*[:)]))? | .""",
    re.DOTALL | re.VERBOSE,
)
_QUANTIFIER = re.compile(r"(?:([*?+])|\{([0-9]{1,9})(,?)([0-9]{0,9})\})([?+]?)")
_QUOTED = re.compile(r"\\(?:Q(.*?)(?:\\E|\Z)|.)", re.DOTALL)
_FLAGS = re.compile(r"\(\?([a-zA-Z]*)-?([a-zA-Z]*)[:)]")
_SPACE_OR_COMMENT = re.compile(r"(?:\s|#[^\n]*)*", re.ASCII)
_NO_WIDTH = ("^", "$", r"\b", r"\b{g}", r"\B", r"\A", r"\z", r"\Z", r"\G")
_CONTROLS = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}
#: The ASCII characters of classes, as ranges: each two characters are the first and the last of a range.
_CLASSES = {
    "d": "09",
    "w": "09AZ__az",
    "s": "\t\r  ",
    "h": "\t\t  ",
    "v": "\n\r",
    "Lower": "az",
    "Upper": "AZ",
    "Alpha": "AZaz",
    "Digit": "09",
    "Alnum": "09AZaz",
    "XDigit": "09AFaf",
    "ASCII": "\0\x7f",
    "Punct": "!/:@[`{~",
    "Graph": "!~",
    "Print": " ~",
    "Blank": "\t\t  ",
    "Space": "\t\r  ",
}
#: The characters that ``.`` does not match.
_LINE_ENDS: Ranges = ((10, 10), (13, 13), (0x85, 0x85), (0x2028, 0x2029))


class PatternTooLargeError(Exception):
    """A pattern is too large to be checked; the message is the reason. ``check_patterns`` catches this error."""


@dataclass(frozen=True)
class Characters:
    """Any of some characters."""

    ranges: Ranges


@dataclass(frozen=True)
class Series:
    """Several parts, one after the other; without parts: the empty text."""

    parts: Sequence[Part] = ()


@dataclass(frozen=True)
class Alternatives:
    """Any of several parts."""

    parts: Sequence[Part]


@dataclass(frozen=True)
class Assertion:
    """The empty text, where a part matches (look-ahead) or not, or where it ends (look-behind)."""

    part: Part


@dataclass(frozen=True)
class Atomic:
    """A part that is not tried in other ways after it has matched."""

    part: Part


@dataclass(frozen=True)
class Repeat:
    """A part, several times.

    Attributes:
        most: None: without a limit.
        is_possessive: whether it is not tried in other ways after it has matched; neither is each repetition.
    """

    part: Part
    least: int
    most: int | None
    is_possessive: bool = False


Part = Characters | Series | Alternatives | Assertion | Atomic | Repeat

_ANY_TEXT = Atomic(Repeat(Characters(_ALL), 0, None))


def parse_pattern(pattern: str) -> Part:
    """The tree of a pattern.

    Raises:
        PatternTooLargeError: the pattern has more than 100 levels of groups.
    """
    return _Reader(_QUOTED.sub(lambda match: match[0] if match[1] is None else re.escape(match[1]), pattern)).group("")


@dataclass
class _Reader:
    pattern: str
    place: int = field(default=0, init=False)

    def group(self, flags: str, depth: int = 0) -> Part:
        """The part up to the end of its group."""
        if depth > _MOST_LEVELS:
            raise PatternTooLargeError(f"has more than {_MOST_LEVELS} levels of groups")
        branches, parts = list[Part](), list[Part]()
        while text := self._token(flags):
            if text == ")" and depth:
                break
            if text == "|":
                branches.append(Series(parts))
                parts = []
            elif text.endswith(")") and text.startswith("("):  # such as (?i), up to the end of the group
                flags = _changed(flags, text)
            else:
                parts.append(self._quantified(self._atom(text, flags, depth), flags))
        last = parts[0] if len(parts) == 1 else Series(parts)
        return Alternatives([*branches, last]) if branches else last

    def _token(self, flags: str) -> str:
        """The next token; "" at the end of the pattern."""
        if "x" in flags and (space := _SPACE_OR_COMMENT.match(self.pattern, self.place)):
            self.place = space.end()
        match = _TOKEN.match(self.pattern, self.place)
        if match is None:
            return ""
        text = self._class() if match[0] == "[" else match[0]
        self.place += len(text)
        return text

    def _class(self) -> str:
        """The text of a class up to its last bracket."""
        start = self.place + 1 + self.pattern.startswith("^", self.place + 1)
        depth, place = 1, start + self.pattern.startswith("]", start)
        while depth and place < len(self.pattern):
            character = self.pattern[place]
            depth += (character == "[") - (character == "]")
            place += 2 if character == "\\" else 1
        return "[" if depth else self.pattern[self.place : place]

    def _atom(self, text: str, flags: str, depth: int) -> Part:
        if text.startswith("("):
            part = self.group(_changed(flags, text), depth + 1)
            if text.endswith(("=", "!")):
                return Assertion(part)
            return Atomic(part) if text == "(?>" else part
        if text in _NO_WIDTH:
            return Series()
        if re.match(r"\\[1-9kRX]", text):
            return _ANY_TEXT
        return Characters(characters_of(text, flags))

    def _quantified(self, part: Part, flags: str) -> Part:
        if "x" in flags and (space := _SPACE_OR_COMMENT.match(self.pattern, self.place)):
            self.place = space.end()
        quantifier = _QUANTIFIER.match(self.pattern, self.place)
        if quantifier is None:
            return part
        self.place = quantifier.end()
        symbol, count, comma, limit, kind = quantifier.groups()
        least = int(symbol == "+") if symbol else int(count)
        most = 1 if symbol == "?" else None if symbol or (comma and not limit) else int(limit or count)
        return Repeat(part, least, most, is_possessive=kind == "+")


def _changed(flags: str, text: str) -> str:
    """The flags after a token that may set or unset flags, such as ``(?i-s:``."""
    match = _FLAGS.fullmatch(text)
    return flags if match is None else "".join(flag for flag in flags + match[1] if flag not in match[2])


def characters_of(text: str, flags: str) -> Ranges:
    """The characters that a token of one character matches."""
    if text == ".":
        return _ALL if "s" in flags else _complement(_LINE_ENDS[:1] if "d" in flags else _LINE_ENDS)
    if text.startswith("[") and len(text) > 1:
        return _characters_of_class(text[1:-1], flags)
    return _characters_of_item(text, flags, is_negated=False)


def _characters_of_class(text: str, flags: str) -> Ranges:
    is_negated = text.startswith("^")
    items = _TOKEN.findall(text[1:] if is_negated else text)
    items = [character for item in items for character in ([item] if item.startswith("\\") else item)]
    if "[" in items or "&&" in text or ("x" in flags and re.search(r"[\s#]", text)):
        return _ALL
    ranges: Ranges = ()
    while items:
        item = items.pop(0)
        if items[:1] != ["-"] or len(items) < 2:
            ranges += _characters_of_item(item, flags, is_negated=is_negated)
            continue
        low, high = _code_of(item), _code_of(items[1])
        if low is None or high is None or low > high:
            return _ALL
        ranges += _without_case(((low, high),), flags, is_negated=is_negated)
        items = items[2:]
    return _complement(ranges) if is_negated else ranges


def _characters_of_item(text: str, flags: str, *, is_negated: bool) -> Ranges:
    """The characters of a token.

    Args:
        is_negated: whether the token is in a negated class; then all of these characters match it in Java. Otherwise,
            these are all characters that match it.
    """
    code = _code_of(text)
    if code is not None:
        return _without_case(((code, code),), flags, is_negated=is_negated)
    letter, name = text[1], text[2:].strip("{}").removeprefix("Is")
    bounds = list(map(ord, _CLASSES.get(name if letter in "pP" else letter.lower(), "")))
    ranges: Ranges = tuple(zip(bounds[::2], bounds[1::2], strict=True))
    if letter in "pP" and len(name) <= 2:
        ranges = tuple((code, code) for code in range(128) if unicodedata.category(chr(code)).startswith(name))
    if not ranges or letter == "N":
        return () if is_negated else _ALL
    if letter in "pP" and letter.islower() != is_negated:
        ranges = _without_case(ranges, flags, is_negated=False)
    is_exact = letter in "dDwWsS" and "U" not in flags
    in_ascii = ranges if letter.islower() else tuple((low, high) for low, high in _complement(ranges) if low < 128)
    in_ascii = tuple((low, min(high, 127)) for low, high in in_ascii)
    has_others = letter.isupper() if is_exact else not is_negated
    return in_ascii + (_OUTSIDE_ASCII if has_others else ())


def _code_of(text: str) -> int | None:
    """The code point of a token that stands for one character; None: it does not."""
    if len(text) == 1:
        return ord(text)
    letter, digits = text[1], text[2:].strip("{}")
    if letter in "xu" and digits:
        return min(int(digits, 16), _LAST)
    if letter == "0" and digits:
        return int(digits, 8)
    if letter == "c" and digits:
        return ord(digits) ^ 64
    return None if letter.isalnum() and letter not in _CONTROLS else _CONTROLS.get(letter, ord(letter))


def _without_case(ranges: Ranges, flags: str, *, is_negated: bool) -> Ranges:
    """The characters, and the same letters in the other case if the flags ignore it. Java does so in ASCII only."""
    if "i" not in flags:
        return ranges
    letters = [
        chr(code).swapcase()
        for code in (*range(65, 91), *range(97, 123))
        if any(low <= code <= high for low, high in ranges)
    ]
    ranges += tuple((ord(letter), ord(letter)) for letter in letters)
    # In Unicode, k, s and i are equal to some other characters if their case is ignored.
    has_others = not set("ksi").isdisjoint(letters) or any(high > 127 for _, high in ranges)
    return ranges + _OUTSIDE_ASCII if has_others and not is_negated and {"u", "U"} & set(flags) else ranges


def _complement(ranges: Ranges) -> Ranges:
    gaps, start = list[tuple[int, int]](), 0
    for low, high in sorted(ranges):
        if low > start:
            gaps.append((start, low - 1))
        start = max(start, high + 1)
    return (*gaps, (start, _LAST)) if start <= _LAST else tuple(gaps)
