"""JSON as the standard has it, and excerpts of values for messages."""

from __future__ import annotations

import json
import re
import reprlib
from typing import Any

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: bytes | str) -> Any:
    """JSON as the standard has it: UTF-8, and neither NaN nor Infinity nor half a surrogate pair.

    Raises:
        ValueError: anything else, and nesting beyond what the parser's stack holds.
    """
    decoded = text if isinstance(text, str) else text.decode("utf-8")
    try:
        value = _DECODER.decode(decoded)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if _SURROGATE.search(decoded):
        json.dumps(value, ensure_ascii=False).encode()  # UnicodeEncodeError is a ValueError
    return value


def excerpt(value: object) -> str:
    """A value for a message, however large it is."""
    return _REPR.repr(value)[:_EXCERPT]


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_EXCERPT = 120
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _EXCERPT
