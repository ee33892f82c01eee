"""The texts of typed values; the quarantine shows them for rows that break a rule.

The texts are those of Spark: a plain value as Spark casts it to a string, a nested value as JSON, as of ``to_json``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.nested import entries, offsets_and_entries
from lakehouse_lib.arrow.values import null_scalar, strings
from lakehouse_lib.ingestion.sources.casts import decode_texts

#: Doubles in this range have no exponent in Java.
_PLAIN = (1e-3, 1e7)


def spark_texts(column: pa.Array) -> pa.Array:
    """The text of each value of a column; null stays null."""
    kind = column.type
    if pa.types.is_nested(kind):
        return _json_texts(column)
    if pa.types.is_binary(kind):
        return decode_texts(column)[0]
    if pa.types.is_timestamp(kind):
        texts = column.cast(pa.timestamp(kind.unit)).cast(pa.string())
        texts = pc.replace_substring_regex(texts, r"(\.\d*[1-9])0+$", r"\1")
        return pc.replace_substring_regex(texts, r"\.0+$", "")
    if pa.types.is_floating(kind):
        number: Callable[[str], Any] = np.float32 if kind == pa.float32() else float
        return _each_distinct(column.cast(pa.string()), partial(_java_number, number=number))
    texts = column.cast(pa.string())
    return _each_distinct(texts, _plain_decimal) if pa.types.is_decimal(kind) and kind.scale > 6 else texts


def _json_texts(column: pa.Array) -> pa.Array:
    """The values as JSON; null stays null. Dates, timestamps and binary values have the texts of ``spark_texts``."""
    kind = column.type
    if pa.types.is_struct(kind):
        members = [
            pc.fill_null(_joined_texts(f",{json.dumps(member.name, ensure_ascii=False)}:", _json_texts(values)), "")
            for member, values in zip(kind, column.flatten(), strict=True)
        ]
        inner = pc.utf8_slice_codeunits(_joined_texts(*members), 1)  # without the first comma
        return pc.if_else(column.is_valid(), _joined_texts("{", inner, "}"), null_scalar(pa.string()))
    if pa.types.is_map(kind):
        offsets, pairs = offsets_and_entries(entries(column))
        keys, values = pairs.flatten()
        items = _joined_texts(_quoted(spark_texts(keys)), ":", _or_null(values))
        return _joined_texts("{", pc.binary_join(pa.ListArray.from_arrays(offsets, items), ","), "}")
    if pa.types.is_nested(kind):
        offsets, items = offsets_and_entries(column)
        return _joined_texts("[", pc.binary_join(pa.ListArray.from_arrays(offsets, _or_null(items)), ","), "]")
    texts = spark_texts(column)
    if pa.types.is_floating(kind):
        return pc.if_else(pc.is_finite(column), texts, _quoted(texts))
    is_bare = pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_boolean(kind)
    return texts if is_bare else _quoted(texts)


def _or_null(column: pa.Array) -> pa.Array:
    return pc.fill_null(_json_texts(column), "null")


def _quoted(texts: pa.Array) -> pa.Array:
    return _each_distinct(texts, partial(json.dumps, ensure_ascii=False))


def _joined_texts(*parts: Any) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _each_distinct(texts: pa.Array, rewrite: Callable[[str], str]) -> pa.Array:
    """The texts, each rewritten by a function, which is called once for each distinct text."""
    coded = texts.dictionary_encode()
    rewritten = strings([rewrite(text) for text in coded.dictionary.to_pylist()])
    return rewritten.take(coded.indices)


def _plain_decimal(text: str) -> str:
    return f"{Decimal(text):f}"


def _java_number(text: str, number: Callable[[str], Any]) -> str:
    """The text of a number as Java writes it: 1.0, 1.0E10, NaN, Infinity.

    Args:
        text: the shortest text of the number. Java writes the shortest text since version 19; earlier versions write
            more digits of some numbers.
        number: the constructor of the number's type.
    """
    if "nan" in text:
        return "NaN"
    if "inf" in text:
        return "-Infinity" if text.startswith("-") else "Infinity"
    if len(Decimal(text).normalize().as_tuple().digits) == 1:
        # Java writes the two digits that are nearest to the number: 4.9E-324, not 5.0E-324, for the smallest double.
        text = f"{number(text):.1e}"
    sign, digits, exponent = Decimal(text).as_tuple()
    start = "-" if sign else ""
    significant = "".join(map(str, digits)).rstrip("0") or "0"
    place = len(digits) + int(exponent)  # digits before the decimal point
    if significant == "0":
        return f"{start}0.0"
    if _PLAIN[0] <= abs(float(text)) < _PLAIN[1]:
        padded = significant.rjust(len(significant) - min(place, 0), "0") if place <= 0 else significant
        point = max(place, 0)
        whole = padded[:point].ljust(point, "0") or "0"
        return f"{start}{whole}.{padded[point:] or '0'}"
    return f"{start}{significant[0]}.{significant[1:] or '0'}E{place - 1}"
