from __future__ import annotations

import pyarrow as pa

from lakehouse_lib.privacy.key_texts import KeyTexts, read_keys

DECIMAL = pa.decimal128(15, 2)


def test_a_number_of_too_many_digits_is_not_a_key() -> None:
    """Arrow parses the number as 4711, modulo 2^128."""
    texts = pa.array(["004711", "4711.00", str(2**128 + 4711)])
    keys = KeyTexts.of([4711], [DECIMAL])
    assert keys.among(texts).to_pylist() == [True, True, False]
    assert keys.unreadable(texts).to_pylist() == [False, False, True]
    assert read_keys(texts, [DECIMAL]) == {4711, texts[2].as_py()}
