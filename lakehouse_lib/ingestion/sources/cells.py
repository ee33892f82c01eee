"""Cells of text in the dialect of a source, as typed values: decimal commas, and dates in a format of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import null_scalar
from lakehouse_lib.ingestion.sources.casts import from_text, mask
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.sources.time_format import TimeFormat

#: Match texts made by ``TimeFormat.iso``. The groups leave out the superfluous zeros.
_DATE = r"^(\d{4})-0?(\d\d)-0?(\d\d)"
_TIME = r"T0?(\d\d):0?(\d\d):0?(\d\d)(.*)"


def typed_cells(
    texts: Any, field: pa.Field, source_format: SourceFormat
) -> tuple[Any, np.ndarray[Any, np.dtype[np.bool_]]]:
    """The values of a column of text, and a mask of the texts that do not fit, as ``casts.from_text``."""
    pattern = source_format.time_formats.get(field.name)
    if pattern is not None:
        return _typed(*iso_texts(texts, TimeFormat(pattern)), field.type)
    if source_format.decimal == "," and (pa.types.is_decimal(field.type) or pa.types.is_floating(field.type)):
        return _typed(*decimal_point_texts(texts), field.type)
    return from_text(texts, field.type)


def decimal_point_texts(texts: Any) -> tuple[Any, Any]:
    """Numbers with a point instead of the decimal comma, NULL for texts with a point, and a mask of these texts."""
    has_point = pc.match_substring(texts, ".")
    plain = pc.if_else(has_point, null_scalar(texts.type), texts)
    return pc.replace_substring(plain, ",", "."), has_point


def iso_texts(texts: Any, time_format: TimeFormat) -> tuple[Any, Any]:
    """Texts of a format as ISO 8601, NULL for texts that do not have the format, and a mask of these texts."""
    fits = pc.match_substring_regex(texts, time_format.regex)
    padded = pc.replace_substring_regex(
        pc.if_else(fits, texts, null_scalar(texts.type)), time_format.regex, time_format.iso
    )
    time, groups = (_TIME, r"T\4:\5:\6\7") if time_format.has_time else ("", "")
    return pc.replace_substring_regex(padded, f"{_DATE}{time}$", rf"\1-\2-\3{groups}"), pc.invert(fits)


def _typed(texts: Any, odd: Any, kind: pa.DataType) -> tuple[Any, np.ndarray[Any, np.dtype[np.bool_]]]:
    typed, wrong = from_text(texts, kind)
    return typed, wrong | mask(odd)
