"""The format of a source's files: CSV, JSON lines, JSON arrays, Parquet or ORC, with the options of a reader."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.ingestion.sources.time_format import TimeFormat

#: Formats whose files have typed columns.
TYPED_KINDS = ("parquet", "orc")
KINDS = ("csv", "json", "json_array", *TYPED_KINDS)

REFUSE, RESCUE, ADD_COLUMNS = "refuse", "rescue", "add_columns"
#: The column of a table whose source is loaded with ``RESCUE``.
RESCUED = "_rescued"


@dataclass(frozen=True)
class SourceFormat:
    """The format of a source's files; CSV and JSON may be compressed (``.gz``, ``.bz2``, ``.zst``).

    Attributes:
        kind: ``csv``, ``json`` (one object a line), ``json_array`` (a file is one array of objects), ``parquet``
            or ``orc``.
        delimiter: CSV: one character between fields.
        quote: CSV: the character around fields, doubled inside them; "" for none.
        encoding: CSV and JSON: the name of a Python codec.
        line_breaks: CSV: whether quoted fields may have line breaks. Without them, each line is a record, several tasks
            may read a file, and a file with a line break in a field is refused.
        header: CSV: the first record names the columns; without a header they are in the schema's order.
        null_texts: CSV: an unquoted field with one of these texts is NULL.
        comment: CSV: a line that starts with this character, and does not continue a quoted field, is skipped; "" for
            none.
        skip_lines: CSV: the number of lines to skip at the start of each file, before the header.
        decimal: CSV: the character before the decimals of a number, ``.`` or ``,``.
        time_formats: CSV and JSON: column -> pattern (``TimeFormat``) of a date or timestamp that is not ISO 8601.
        path_columns: columns that are not in the files, but in their names: all rows of a file below the folder
            ``day=2026-01-01`` have this value.
        evolution: the treatment of columns and values that do not fit the schema. ``refuse``: the file is refused, or
            the row rejected. ``rescue``: the column ``_rescued`` gets them, as the text of a JSON object.
            ``add_columns``: the table gets the columns, and rows with such values are rejected. With ``rescue`` and
            ``add_columns``, files may lack nullable columns, which are NULL.
    """

    kind: str
    delimiter: str = ","
    quote: str = '"'
    encoding: str = "utf-8"
    line_breaks: bool = True
    header: bool = True
    null_texts: tuple[str, ...] = ("",)
    comment: str = ""
    skip_lines: int = 0
    decimal: str = "."
    time_formats: Mapping[str, str] = field(default_factory=dict, hash=False)
    path_columns: tuple[str, ...] = ()
    evolution: str = REFUSE

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise _error(
                f"format is {self.kind!r}; expected one of {', '.join(KINDS)}",
                "Give the format of the files; convert files of other formats, such as Avro or XML, to Parquet",
            )
        self._check_csv()
        try:
            codecs.lookup(self.encoding)
        except LookupError as error:
            raise _error(
                f"encoding is {self.encoding!r}; expected the name of a Python codec",
                "Give a name such as utf-8, latin-1 or cp1252",
            ) from error
        if self.kind == "json" and "\n".encode(self.encoding) != b"\n":
            raise _error(
                f"encoding of JSON lines is {self.encoding!r}; expected a codec in which a line break is one byte",
                "Convert the files to utf-8",
            )
        is_known = self.evolution in (REFUSE, RESCUE, ADD_COLUMNS)
        if not is_known or (self.evolution == RESCUE and self.kind in TYPED_KINDS):
            raise _error(
                f"evolution is {self.evolution!r} for {self.kind} files; expected refuse, add_columns, or for CSV and "
                "JSON rescue",
                "Give refuse, or convert the files",
            )
        if self.evolution == ADD_COLUMNS and self.kind == "csv" and not self.header:
            raise _error(
                "evolution is 'add_columns' for CSV files without a header; expected a header, which names new columns",
                "Land files with a header, or give refuse",
            )
        for pattern in self.time_formats.values():
            TimeFormat(pattern)

    def _check_csv(self) -> None:
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in "\r\n":
            raise _error(
                f"delimiter is {self.delimiter!r}; expected one ASCII character", "Give a delimiter such as ',' or '|'"
            )
        reserved = ("\r", "\n", self.delimiter)
        if len(self.quote) > 1 or not self.quote.isascii() or self.quote in reserved:
            raise _error(
                f"quote is {self.quote!r}; expected one ASCII character other than a line break and the delimiter",
                "Give the character around fields, or '' for none",
            )
        if len(self.comment) > 1 or not self.comment.isascii() or self.comment in (*reserved, self.quote or None):
            raise _error(
                f"comment is {self.comment!r}; expected one ASCII character other than a line break, the delimiter and "
                "the quote",
                "Give the character at the start of comment lines, such as '#', or '' for none",
            )
        if type(self.skip_lines) is not int or self.skip_lines < 0:
            raise _error(
                f"skip_lines is {self.skip_lines!r}; expected a whole number of at least 0",
                "Give the number of lines before the header",
            )
        if self.decimal not in (".", ","):
            raise _error(f"decimal is {self.decimal!r}; expected '.' or ','", "Give the sign before the decimals")

    @property
    def is_split(self) -> bool:
        """Whether several tasks may read parts of a file of this format that is not compressed.

        JSON lines are cut at line breaks, whatever the encoding. CSV is cut at line breaks if no field has one, and the
        encoding is UTF-8 or has one byte for each character.
        """
        if self.kind != "csv":
            return self.kind in ("json", *TYPED_KINDS)
        has_lines = self.is_utf8 or _is_single_byte(self.encoding)
        return has_lines and not (self.quote and self.line_breaks)

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name in ("utf-8", "ascii")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> SourceFormat:
        """The format that the parameters of the catalogue's operation ``ingest`` describe."""
        names = {option.name for option in fields(cls)}
        options = {name: value for name, value in values.items() if name in names and value is not None}
        flags = {"header": not values["no_header"], "line_breaks": not values["no_line_breaks"]}
        return cls.from_json({**options, **flags, "kind": values["format"]})

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "null_texts": list(self.null_texts), "path_columns": list(self.path_columns)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SourceFormat:
        options = dict(value)
        if "null_text" in options:  # intents of earlier releases
            options["null_texts"] = [options.pop("null_text")]
        for name in {"null_texts", "path_columns"} & options.keys():
            options[name] = tuple(options[name])
        return cls(**options)


def _is_single_byte(encoding: str) -> bool:
    """Whether each byte is a character by itself, and the first 128 are those of ASCII."""
    codec = codecs.lookup(encoding)
    if codec.name == "iso8859-1":
        return True
    table = getattr(sys.modules.get(codec.decode.__module__), "decoding_table", None)
    return isinstance(table, str) and table.startswith(bytes(range(128)).decode("ascii"))


def _error(message: str, hint: str) -> InvalidArgumentError:
    return InvalidArgumentError(message, hint=hint, code="DELTA_INVALID_SOURCE")
