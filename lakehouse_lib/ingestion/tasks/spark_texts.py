"""The texts of typed values, as Spark casts them to a string; the quarantine shows them for rows that break a rule."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import strings
from lakehouse_lib.ingestion.sources.casts import decode_texts

#: Doubles in this range have no exponent in Java.
_PLAIN = (1e-3, 1e7)


def spark_texts(column: pa.Array) -> pa.Array:
    """The text of each value of a column that is not nested; null stays null."""
    kind = column.type
    if pa.types.is_binary(kind):
        return decode_texts(column)[0]
    if pa.types.is_timestamp(kind):
        texts = column.cast(pa.timestamp(kind.unit)).cast(pa.string())
        texts = pc.replace_substring_regex(texts, r"(\.\d*[1-9])0+$", r"\1")
        return pc.replace_substring_regex(texts, r"\.0+$", "")
    if pa.types.is_floating(kind):
        return _each_distinct(column.cast(pa.string()), _java_number)
    texts = column.cast(pa.string())
    return _each_distinct(texts, _plain_decimal) if pa.types.is_decimal(kind) and kind.scale > 6 else texts


def _each_distinct(texts: pa.Array, rewrite: Callable[[str], str]) -> pa.Array:
    """The texts, each rewritten by a function, which is called once for each distinct text."""
    coded = texts.dictionary_encode()
    rewritten = strings([rewrite(text) for text in coded.dictionary.to_pylist()])
    return rewritten.take(coded.indices)


def _plain_decimal(text: str) -> str:
    return f"{Decimal(text):f}"


def _java_number(text: str) -> str:
    """The text of a number as Java writes it: 1.0, 1.0E10, NaN, Infinity."""
    if "nan" in text:
        return "NaN"
    if "inf" in text:
        return "-Infinity" if text.startswith("-") else "Infinity"
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
