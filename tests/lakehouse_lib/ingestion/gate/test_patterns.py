"""Regular expressions of Java, as RE2 searches them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakehouse_lib.ingestion.gate.arguments import NotTranslatedError
from lakehouse_lib.ingestion.gate.condition import Matches
from lakehouse_lib.ingestion.gate.patterns.regex import to_re2


def matches(pattern: str, *texts: str) -> list[bool]:
    batch = pa.RecordBatch.from_arrays([pa.array(texts)], names=["text"])
    return list(Matches("text", *to_re2(pattern)).mask(batch).to_pylist())


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("^a$", ["a", "a\n", "a\r\n", "a\r", "a\u0085", "a\u2028"], ["a\n\n", "a ", "\na", "a\nb"]),
        ("^.$", ["b", "😀", "b\n"], ["", "\n", "\r", "\u2028", "ab"]),
        ("[^\\n]$", ["a", "a\n", "a\r\n", "a\r"], ["", "\n\n"]),
        ("\\r$", ["\r", "a\r", "\r\r\n", "\r\r"], ["\r\n", "\n"]),
        ("^\\s+$", [" ", "\x0b", "\t\n"], ["", "\u00a0", "\u2003"]),
        ("\\d", ["1"], ["١"]),
        ("^[\\w.-]+@x\\.org$", ["a.b-c@x.org"], ["é@x.org", "a@xyorg"]),
        ("^(a|b{2,3}?)*c?$", ["", "abbc", "bbb", "c"], ["b", "cc"]),
        ("[a-]\\-[-z]", ["a-z", "---"], ["b-z"]),
        ("(?i)^[a-k]É$", ["aÉ", "KÉ"], ["aé", "\u212aÉ", "lÉ"]),
        ("a$|^b", ["xa", "bx", "a\n"], ["ax", "xb"]),
    ],
)
def test_patterns_match_as_in_java(pattern: str, matching: list[str], others: list[str]) -> None:
    assert matches(pattern, *matching) == [True] * len(matching)
    assert matches(pattern, *others) == [False] * len(others)


@pytest.mark.parametrize(
    "pattern",
    [
        "\\b", "\\B", "(?s)a", "a(?i)b", "(?=a)", "(?<!a)", "(?<n>a)", "a++", "a*+", "a**", "\\1", "\\p{L}", "\\h",
        "\\R",
        "\\Qa", "\\x41", "[a&&b]",
        "[a[b]]", "[]a]", "[\\w-z]", "[a-\\d]", "[z-a]", "(a$)", "a$b", "$*", "^*", "*a", "a{1001}", "a{2,1}",
        "a{,2}", "{", "(", ")", "[", "\\",
        "(?:(?:a{999}){999}){999}", "\\é",
    ],
)  # fmt: skip
def test_patterns_that_may_mean_something_else_are_refused(pattern: str) -> None:
    with pytest.raises(NotTranslatedError):
        to_re2(pattern)


def test_a_pattern_that_runs_away_in_java_takes_linear_time() -> None:
    assert matches("^(a+)+$", "a" * 100_000 + "b") == [False]
