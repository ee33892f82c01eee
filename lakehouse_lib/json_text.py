"""A parser for strict JSON, and short texts of values for messages."""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Sequence
from typing import Any

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: bytes | str) -> Any:
    """The value of strict JSON: UTF-8, without NaN, Infinity or half a surrogate pair.

    Raises:
        ValueError: the text is not such JSON, or is nested more deeply than the parser's stack.
    """
    decoded = text if isinstance(text, str) else text.decode("utf-8")
    try:
        value = _DECODER.decode(decoded)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if _SURROGATE.search(decoded):
        json.dumps(value, ensure_ascii=False).encode()  # half a pair raises UnicodeEncodeError, which is a ValueError
    return value


def excerpt(value: object) -> str:
    """A value as text of at most 120 characters, for a message."""
    return _REPR.repr(value)[:_EXCERPT]


def first_texts(texts: Sequence[str], count: int) -> str:
    """The first ``count`` texts for a message, and how many more there are: ``a, b and 3 more``."""
    more = len(texts) - count
    return ", ".join(texts[:count]) + (f" and {more} more" if more > 0 else "")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_EXCERPT = 120
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _EXCERPT
