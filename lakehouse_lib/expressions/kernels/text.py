"""Upper and lower case of text, as in Spark: with the full mappings of Unicode.

Arrow maps a character to one character. Unicode maps some to several, such as ß to SS, and a sigma at the end of a word
to another lower-case letter.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import bools, flags_of, is_true

#: Letters for which versions of Unicode differ: later versions added the other case of a letter. Arrow's version is
#: later than Spark's.
NEW_PAIRS = "ɷɼꭋꭌ\ua7dd\ua7e2\uab6c\uab6d\U0001df40-\U0001df7f"
_LAST_MAPPED = 0xFB17


def upper(values: pa.Array) -> pa.Array:
    """The texts in upper case.

    Raises:
        pa.ArrowInvalid: a text has a letter for which versions of Unicode differ.
    """
    if _is_ascii(values):
        return pc.ascii_upper(values)
    _refuse_new_pairs(values)
    is_special = is_true(pc.match_substring_regex(values, f"[{''.join(_several_letters())}]"))
    if is_special.true_count:
        changed = values.filter(is_special)
        for letter, letters in _several_letters().items():
            changed = pc.replace_substring(changed, letter, letters)
        values = pc.replace_with_mask(values, is_special, changed)
    return pc.utf8_upper(values)


def lower(values: pa.Array) -> pa.Array:
    """The texts in lower case.

    Raises:
        pa.ArrowInvalid: a text has a letter for which versions of Unicode differ.
    """
    if _is_ascii(values):
        return pc.ascii_lower(values)
    _refuse_new_pairs(values)
    values = pc.replace_substring(values, "İ", "i̇")
    has_sigma = is_true(pc.match_substring(values, "Σ"))
    if has_sigma.true_count:
        # Which sigma ends a word depends on the letters around it. Python follows Unicode here, Arrow does not.
        texts = [_with_last_sigmas(text) for text in values.filter(has_sigma).to_pylist()]
        values = pc.replace_with_mask(values, has_sigma, pa.array(texts, values.type))
    return pc.utf8_lower(values)


def _with_last_sigmas(text: str) -> str:
    lowered = text.lower()
    return "".join(small if letter == "Σ" else letter for letter, small in zip(text, lowered, strict=True))


def _is_ascii(values: pa.Array) -> bool:
    return bool(pc.all(pc.string_is_ascii(values), min_count=0).as_py())


def _refuse_new_pairs(values: pa.Array) -> None:
    is_new = flags_of(pc.match_substring_regex(values, f"[{NEW_PAIRS}]"))
    if is_new.any():
        letter = next(
            letter for letter in values.filter(bools(is_new))[0].as_py() if re.match(f"[{NEW_PAIRS}]", letter)
        )
        raise pa.ArrowInvalid(f"versions of Unicode differ about upper and lower case of {letter!r}")


@cache
def _several_letters() -> dict[str, str]:
    """The characters whose upper case has several characters, and their upper case."""
    letters = map(chr, np.arange(128, _LAST_MAPPED + 1).tolist())
    return {letter: letter.upper() for letter in letters if len(letter.upper()) > 1}
