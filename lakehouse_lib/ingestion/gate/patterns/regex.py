"""Translate regular expressions of Java to RE2.

RE2 takes linear time for every pattern. A pattern is rewritten token by token. Tokens that RE2 lacks, or that mean
something else in RE2, are refused: look-around, back-references, possessive quantifiers, word boundaries, inline flags
except ``(?i)`` at the start, named groups, classes of Unicode, and ``$`` inside a group.
"""

from __future__ import annotations

import re
from string import ascii_letters

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import strings
from lakehouse_lib.ingestion.gate.arguments import NotTranslatedError

#: Java's ``.`` matches none of these line terminators; the ``.`` of RE2 excludes only the first.
_DOT = "[^\\n\\r\u0085\u2028\u2029]"
_SPACE = " \\t\\n\\x0b\\f\\r"  # RE2's \s lacks the vertical tab
_CLASSES = {
    "d": "0-9",
    "w": "a-zA-Z0-9_",
    "s": _SPACE,
}
_CONTROLS = {"t": "\\t", "n": "\\n", "r": "\\r", "f": "\\f"}
_QUANTIFIER = re.compile(r"(?:[*+?]|\{(\d{1,4})(?:,(\d{1,4})?)?\})\??", re.ASCII)
_MOST_REPEATS = 1000


def to_re2(pattern: str) -> tuple[str, bool]:
    """A pattern of Java as one of RE2, to be searched in a text.

    Returns:
        The pattern, in which ``$`` is the end of the text; and whether it has a ``$``, which in Java also matches
        before a line terminator at the end of the text.

    Raises:
        NotTranslatedError: the pattern is not valid, or has a token that is not translated.
    """
    written = _Writer(pattern).write()
    try:
        pc.match_substring_regex(strings([""]), written[0])
    except pa.ArrowInvalid as error:  # for example a repetition of repetitions that takes too much memory
        raise NotTranslatedError(f"RE2 refuses the pattern: {error}") from None
    return written


class _Writer:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.has_end = False
        self.ignores_case = False

    def write(self) -> tuple[str, bool]:
        self.ignores_case = self._take("(?i)")
        text = self._alternatives(depth=0)
        if self.at < len(self.pattern):
            raise NotTranslatedError("the pattern has an unmatched )")
        return text, self.has_end

    def _alternatives(self, depth: int) -> str:
        if depth > 50:
            raise NotTranslatedError("the pattern has too many levels")
        branches = [self._sequence(depth)]
        while self._take("|"):
            branches.append(self._sequence(depth))
        return "|".join(branches)

    def _sequence(self, depth: int) -> str:
        parts = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            if self._take("^"):
                parts.append("\\A")
                self._refuse_quantifier()
            elif self._take("$"):
                if depth or (self.at < len(self.pattern) and self.pattern[self.at] != "|"):
                    raise NotTranslatedError("the pattern has a $ that does not end it")
                self.has_end = True
                parts.append("\\z")
            else:
                parts.append(self._atom(depth) + self._quantifier())
        return "".join(parts)

    def _atom(self, depth: int) -> str:
        if self._take("("):
            if self._take("?") and not self._take(":"):
                raise NotTranslatedError("the pattern has a group with ?")
            inner = self._alternatives(depth + 1)
            if not self._take(")"):
                raise NotTranslatedError("the pattern has an unclosed group")
            return f"(?:{inner})"
        if self._take("["):
            return self._set()
        if self._take("."):
            return _DOT
        if self._take("\\"):
            letter = self._next()
            if letter in _CLASSES:
                return f"[{_CLASSES[letter]}]"
            if letter.lower() in _CLASSES:
                return f"[^{_CLASSES[letter.lower()]}]"
            return self._escaped(letter)
        character = self._next()
        if character in "*+?{":
            raise NotTranslatedError(f"the pattern has a {character} without an operand")
        if self.ignores_case and _is_letter(character):
            return f"[{character}{character.swapcase()}]"
        return _literal(character)

    def _set(self) -> str:
        parts = ["[^" if self._take("^") else "["]
        first = True
        while first or not self._take("]"):
            character = self._next()
            if character in "[&" or (first and character == "]"):
                raise NotTranslatedError(f"the pattern has a {character} in a class")
            first = False
            if character == "\\":
                letter = self._next()
                if letter in _CLASSES:
                    if self._is_range():
                        raise NotTranslatedError("the pattern has a range that begins with a class")
                    parts.append(_CLASSES[letter])
                    continue
                low = letter if not letter.isalnum() else None
                text = self._escaped(letter)
            else:
                low, text = character, _literal(character)
            parts.append(text)
            high = low
            if self._is_range():
                self.at += 1
                high = self._next()
                if low is None or high in "\\[&" or high < low:
                    raise NotTranslatedError("the pattern has a range that is not translated")
                parts.append(f"-{_literal(high)}")
                if self._is_range():
                    raise NotTranslatedError("the pattern has a range of a range")
            if self.ignores_case and low is not None and high is not None:
                parts += [letter for letter in ascii_letters if low <= letter.swapcase() <= high]
        return "".join([*parts, "]"])

    def _is_range(self) -> bool:
        return self.pattern[self.at : self.at + 1] == "-" and self.pattern[self.at + 1 : self.at + 2] != "]"

    def _escaped(self, letter: str) -> str:
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter.isalnum() or not letter.isascii():
            raise NotTranslatedError(f"the pattern has \\{letter}")
        return _literal(letter)

    def _quantifier(self) -> str:
        match = _QUANTIFIER.match(self.pattern, self.at)
        if match is None:
            return ""
        counts = [int(count) for count in match.groups() if count]
        if any(count > _MOST_REPEATS for count in counts) or counts != sorted(counts):
            raise NotTranslatedError("the pattern has a repetition that is not translated")
        self.at = match.end()
        self._refuse_quantifier()
        return match[0]

    def _refuse_quantifier(self) -> None:
        if self.pattern[self.at : self.at + 1] in tuple("*+?{"):
            raise NotTranslatedError("the pattern has a quantifier that is not translated")

    def _take(self, text: str) -> bool:
        is_next = self.pattern.startswith(text, self.at)
        self.at += len(text) if is_next else 0
        return is_next

    def _next(self) -> str:
        if self.at >= len(self.pattern):
            raise NotTranslatedError("the pattern is not complete")
        self.at += 1
        return self.pattern[self.at - 1]


def _is_letter(character: str) -> bool:
    """Whether Java ignores the case of a character; by default it does so for ASCII only."""
    return character.isascii() and character.isalpha()


def _literal(character: str) -> str:
    if character.isascii() and not character.isalnum():
        return f"\\x{ord(character):02x}"
    return character
