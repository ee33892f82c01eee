"""Infer the narrowest type that all texts of a column fit, and count its NULLs and its distinct values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import flags_of
from lakehouse_lib.ingestion.sources.cells import decimal_point_texts, typed_cells
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.sources.time_format import TimeFormat

#: A column with at most this many different texts may get a rule with the set of these texts.
MOST_VALUES = 10
_MOST_DIGITS = 38
#: The largest scale of a decimal. Numbers with more digits after the point are measurements, so they become doubles.
_MOST_DECIMALS = 6
#: The least scale and the least precision of a decimal type, so that later files may have larger amounts.
_LEAST_DECIMALS, _PRECISION = 2, 18

_BOOLEAN = r"^(true|false)$"
#: Texts that are numbers. A text with a leading zero or a plus sign, such as 01234, is a code and not a number.
_INTEGER = r"^-?(0|[1-9][0-9]*)$"
_DECIMAL = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"
_NUMBER = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_ZONED = r":.*(Z|[+-][0-9]{2}(:?[0-9]{2})?)$"
_TIMESTAMP = pa.timestamp("us", "UTC")
#: The types in the order of preference, and the regular expression that the texts match, too.
_CANDIDATES: tuple[tuple[pa.DataType, str | None], ...] = (
    (pa.bool_(), _BOOLEAN),
    (pa.int64(), _INTEGER),
    (pa.decimal128(_MOST_DIGITS, _MOST_DECIMALS), _DECIMAL),
    (pa.float64(), _NUMBER),
    (pa.date32(), None),
    (_TIMESTAMP, None),
)


class InferredColumn:
    """The texts of a column, added block by block.

    Attributes:
        rows, nulls: the number of texts, and of NULLs among them.
        least: the least number of a column of numbers; None: it has none.
        values: the distinct texts; None: there are more than ``MOST_VALUES``.
    """

    def __init__(self, name: str, source_format: SourceFormat) -> None:
        self.name = name
        self._format = source_format
        self.rows = 0
        self.nulls = 0
        self.least: float | None = None
        self.values: set[str] | None = set()
        self._candidates = list(_CANDIDATES)
        pattern = source_format.time_formats.get(name)
        if pattern is not None:
            self._candidates = [(_TIMESTAMP if TimeFormat(pattern).has_time else pa.date32(), None)]
        self._whole_digits = 0
        self._decimals = 0
        self._has_unzoned = False

    def add(self, texts: Any) -> None:
        """Add a string array."""
        self.rows += len(texts)
        self.nulls += texts.null_count
        texts = texts.drop_null()
        if not len(texts):
            return
        if self.values is not None:
            self.values |= set(pc.unique(texts).slice(0, MOST_VALUES + 1).to_pylist())
            if len(self.values) > MOST_VALUES:
                self.values = None
        self._candidates = [each for each in self._candidates if self._fit(texts, *each)]
        if self._candidates and _is_number(self._candidates[0][0]):
            self._measure(texts)
        self._has_unzoned |= not flags_of(pc.match_substring_regex(texts, _ZONED)).all()

    @property
    def is_unzoned(self) -> bool:
        """Whether it has times without a zone."""
        return self._has_unzoned and pa.types.is_timestamp(self.type)

    @property
    def type(self) -> pa.DataType:
        """The narrowest type of the texts; string, if no other fits or all are NULL."""
        if not self._candidates or self.nulls == self.rows:
            return pa.string()
        kind = self._candidates[0][0]
        if pa.types.is_decimal(kind):
            scale = max(self._decimals, _LEAST_DECIMALS)
            return pa.decimal128(min(_MOST_DIGITS, max(self._whole_digits + scale, _PRECISION)), scale)
        return kind

    def _fit(self, texts: Any, kind: pa.DataType, pattern: str | None) -> bool:
        """Whether all texts match the pattern, and a load would read them as this type."""
        if pattern is not None and not flags_of(pc.match_substring_regex(self._pointed(texts), pattern)).all():
            return False
        typed, wrong = typed_cells(texts, pa.field(self.name, kind), self._format)
        return not np.any(wrong) and not typed.null_count

    def _pointed(self, texts: Any) -> Any:
        """The texts with a point instead of the decimal comma. A text with a point becomes ``-``, not a number."""
        return pc.fill_null(decimal_point_texts(texts)[0], "-") if self._format.decimal == "," else texts

    def _measure(self, texts: Any) -> None:
        texts = self._pointed(texts)
        numbers = texts.cast(pa.float64())
        least = pc.min(numbers).as_py()
        self.least = least if self.least is None else min(self.least, least)
        parts = pc.extract_regex(texts, r"^-?(?P<whole>[0-9]+)\.?(?P<decimals>[0-9]*)")
        whole, decimals = (pc.max(pc.binary_length(pc.struct_field(parts, name))) for name in ("whole", "decimals"))
        self._whole_digits = max(self._whole_digits, whole.as_py())
        self._decimals = max(self._decimals, decimals.as_py())


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind))
