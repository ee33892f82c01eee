"""Properties of the Parquet files that a verb writes, under the names of the ``deltalake`` package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import InitVar, dataclass, fields
from typing import Any, Literal, NoReturn

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt

#: Codec -> its levels and the default level; None: the codec has no levels. The defaults are those of ``deltalake``.
_LEVELS: dict[str, tuple[range, int] | None] = {
    "UNCOMPRESSED": None,
    "SNAPPY": None,
    "GZIP": (range(10), 6),
    "BROTLI": (range(12), 1),
    "LZ4": None,
    "ZSTD": (range(1, 23), 1),
    "LZ4_RAW": None,
}
_STATISTICS = ("NONE", "CHUNK", "PAGE")
ENCODINGS = (
    "PLAIN",
    "RLE",
    "DELTA_BINARY_PACKED",
    "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY",
    "BYTE_STREAM_SPLIT",
)


@dataclass(frozen=True)
class BloomFilterProperties:
    """The Bloom filter of a column in each row group.

    Args:
        set_bloom_filter_enabled: write a filter; None: write one if ``fpp`` or ``ndv`` is given.
        fpp: share of absent values for which the filter says that they may be present, between 0 and 1; default 0.05.
        ndv: number of distinct values in a row group; default 1,048,576. The filter is smaller if the row group has
            fewer values.

    Raises:
        InvalidArgumentError: a value is not valid.
    """

    set_bloom_filter_enabled: bool | None
    fpp: float | None = None
    ndv: int | None = None

    def __post_init__(self) -> None:
        _check_switch("set_bloom_filter_enabled", self.set_bloom_filter_enabled)
        if self.fpp is not None and not (isinstance(self.fpp, int | float) and 0 < self.fpp < 1):
            _refuse("fpp", self.fpp, "a number between 0 and 1")
        _check_count("ndv", self.ndv)

    @property
    def is_on(self) -> bool:
        """Whether a filter is written."""
        if self.set_bloom_filter_enabled is None:
            return self.fpp is not None or self.ndv is not None
        return self.set_bloom_filter_enabled


@dataclass(frozen=True)
class ColumnProperties:
    """Properties of a column in the Parquet files. The properties of a nested column apply to its leaf columns.

    Args:
        dictionary_enabled: use dictionary encoding; None: use it if values repeat in a sample of the first rows, or if
            a column of the table is nested.
        statistics_enabled: "NONE": the file and the log get no min, max and count of nulls; "CHUNK": the file has them
            for each row group; "PAGE" (default): for each row group and each page.
        bloom_filter_properties: the Bloom filter; boolean columns have none.
        encoding: the encoding of values without a dictionary: PLAIN (default), RLE (booleans), DELTA_BINARY_PACKED
            (integers, dates and times), DELTA_LENGTH_BYTE_ARRAY (strings and binary), DELTA_BYTE_ARRAY (these and
            decimals), BYTE_STREAM_SPLIT (numbers, dates and times).

    Raises:
        InvalidArgumentError: a value is not valid, or an encoding is given together with ``dictionary_enabled=True``.
    """

    dictionary_enabled: bool | None = None
    statistics_enabled: Literal["NONE", "CHUNK", "PAGE"] | None = None
    bloom_filter_properties: BloomFilterProperties | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        _check_switch("dictionary_enabled", self.dictionary_enabled)
        _check_choice("statistics_enabled", self.statistics_enabled, _STATISTICS)
        _check_class("bloom_filter_properties", self.bloom_filter_properties, BloomFilterProperties)
        _check_choice("encoding", self.encoding, ENCODINGS)
        if self.encoding is not None and self.dictionary_enabled:
            _refuse("encoding", self.encoding, "None with dictionary_enabled=True")

    def over(self, default: ColumnProperties) -> ColumnProperties:
        """These properties, completed by the properties of ``default`` that are not set here."""
        values = {
            field.name: getattr(default if getattr(self, field.name) is None else self, field.name)
            for field in fields(self)
        }
        if values["dictionary_enabled"] and values["encoding"] is not None:  # one of them is set here
            del values["encoding" if self.encoding is None else "dictionary_enabled"]
        return ColumnProperties(**values)


@dataclass(frozen=True)
class WriterProperties:
    """Properties of the Parquet files that a verb writes.

    A property that is not given has its default. The default codec is that of the table property
    ``delta.parquet.compression.codec``; ``deltalake`` writes uncompressed files by default.

    Args:
        data_page_size_limit: approximate bytes of a data page; default 1 MiB.
        dictionary_page_size_limit: maximum bytes of a dictionary; default 1 MiB. When the dictionary of a column is
            full, later values of the column are written without it.
        data_page_row_count_limit: maximum rows of a data page; default 20,000.
        write_batch_size: values that are encoded between two checks of the limits of a page; default 1,024.
        max_row_group_size: maximum rows of a row group; default 1,048,576. A row group also ends at about 128 MiB, or
            at the target size of files if this is smaller.
        compression: UNCOMPRESSED, SNAPPY, GZIP, BROTLI, ZSTD or LZ4_RAW, in upper or lower case. LZ4 means LZ4_RAW,
            because the older format of LZ4 is deprecated. The attribute also contains the level, such as ``GZIP(6)``.
        compression_level: GZIP: 0 to 9, default 6; BROTLI: 0 to 11, default 1; ZSTD: 1 to 22, default 1. Other codecs
            have no levels, and ignore this argument.
        statistics_truncate_length: characters to which strings are cut in the statistics of the log; default 32. The
            statistics in the file are not cut.
        default_column_properties: the properties of columns for which ``column_properties`` does not set them.
        column_properties: the properties of single columns, by the column's name.

    Raises:
        InvalidArgumentError: a value is not valid.
    """

    data_page_size_limit: int | None = None
    dictionary_page_size_limit: int | None = None
    data_page_row_count_limit: int | None = None
    write_batch_size: int | None = None
    max_row_group_size: int | None = None
    compression: str | None = None
    compression_level: InitVar[int | None] = None
    statistics_truncate_length: int | None = None
    default_column_properties: ColumnProperties | None = None
    column_properties: Mapping[str, ColumnProperties] | None = None

    def __post_init__(self, compression_level: int | None) -> None:
        for name in (
            "data_page_size_limit",
            "dictionary_page_size_limit",
            "data_page_row_count_limit",
            "write_batch_size",
            "max_row_group_size",
            "statistics_truncate_length",
        ):
            _check_count(name, getattr(self, name))
        object.__setattr__(self, "compression", _with_level(self.compression, compression_level))
        _check_class("default_column_properties", self.default_column_properties, ColumnProperties)
        if self.column_properties is not None and not isinstance(self.column_properties, Mapping):
            _refuse("column_properties", self.column_properties, 'a mapping such as {"id": ColumnProperties(...)}')
        for column, properties in (self.column_properties or {}).items():
            if not isinstance(column, str) or not isinstance(properties, ColumnProperties):
                _refuse(
                    f"column_properties[{excerpt(column)}]", properties, "ColumnProperties for the name of a column"
                )

    @property
    def codec(self) -> str | None:
        """The codec in lower case, as in ``delta.parquet.compression.codec``; None: that of the table."""
        return None if self.compression is None else self.compression.partition("(")[0].lower()

    @property
    def level(self) -> int | None:
        """The level of the codec; None: the codec has no levels, or it is the codec of the table."""
        level = (self.compression or "").partition("(")[2]
        return int(level.rstrip(")")) if level else None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the properties that are set."""
        return tuple(field.name for field in fields(self) if getattr(self, field.name) is not None)


def check_writer_properties(properties: object, *, table: str) -> None:
    """Check the ``writer_properties`` argument of a verb.

    Raises:
        InvalidArgumentError: the value is not a ``WriterProperties`` of this library; the ``deltalake`` package has a
            class of the same name.
    """
    if properties is not None and not isinstance(properties, WriterProperties):
        raise InvalidArgumentError(
            f"writer_properties is of type {type(properties).__module__}.{type(properties).__qualname__}; expected "
            "lakehouse_lib.WriterProperties",
            table=table,
            hint='Give lakehouse_lib.WriterProperties(compression="ZSTD"), or leave it out',
            code="DELTA_INVALID_WRITER_PROPERTIES",
        )


def _with_level(compression: object, level: object) -> str | None:
    """The codec with its level, such as ``ZSTD(1)``."""
    if compression is None:
        if level is not None:
            _refuse("compression_level", level, "None without compression")
        return None
    _check_choice("compression", compression, tuple(_LEVELS))
    codec = str(compression).upper()
    levels = _LEVELS[codec]
    if levels is None:
        return codec
    allowed, default = levels
    if level is not None and (type(level) is not int or level not in allowed):
        _refuse("compression_level", level, f"a whole number from {allowed[0]} to {allowed[-1]} for {codec}")
    return f"{codec}({default if level is None else level})"


def _check_count(name: str, value: object) -> None:
    if value is not None and (type(value) is not int or value < 1):
        _refuse(name, value, "a whole number from 1, or None")


def _check_switch(name: str, value: object) -> None:
    if value is not None and not isinstance(value, bool):
        _refuse(name, value, "True, False or None")


def _check_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    if value is not None and not (isinstance(value, str) and value.upper() in choices):
        _refuse(name, value, f"one of {', '.join(choices)}")


def _check_class(name: str, value: Any, kind: type) -> None:
    if value is not None and not isinstance(value, kind):
        _refuse(name, value, f"lakehouse_lib.{kind.__name__}")


def _refuse(name: str, value: object, expected: str) -> NoReturn:
    raise InvalidArgumentError(
        f"{name} is {excerpt(value)}; expected {expected}",
        hint="Give a valid value, or leave it out",
        code="DELTA_INVALID_WRITER_PROPERTIES",
    )
