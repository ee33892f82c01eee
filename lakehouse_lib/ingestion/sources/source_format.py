"""The format of a source's files: CSV, JSON lines, JSON arrays, Parquet or ORC, with the options of a reader."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from lakehouse_lib.errors import InvalidArgumentError

#: Formats whose files have typed columns, also nested ones.
TYPED_KINDS = ("parquet", "orc")
KINDS = ("csv", "json", "json_array", *TYPED_KINDS)


@dataclass(frozen=True)
class SourceFormat:
    """The format of a source's files; CSV and JSON may be compressed (``.gz``, ``.bz2``, ``.zst``).

    Attributes:
        kind: ``csv``, ``json`` (one object a line), ``json_array`` (a file is one array of objects), ``parquet``
            or ``orc``.
        delimiter: CSV: one character between fields.
        quote: CSV: the character around fields, doubled inside them; "" for none.
        encoding: CSV and JSON: the name of a Python codec.
        header: CSV: the first record names the columns; without a header they are in the schema's order.
        null_text: CSV: an unquoted field with this text is NULL.
    """

    kind: str
    delimiter: str = ","
    quote: str = '"'
    encoding: str = "utf-8"
    header: bool = True
    null_text: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise InvalidArgumentError(
                f"format is {self.kind!r}; expected one of {', '.join(KINDS)}",
                hint="Give the format of the files; convert files of other formats, such as Avro or XML, to Parquet",
                code="DELTA_INVALID_SOURCE",
            )
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in "\r\n":
            raise InvalidArgumentError(
                f"delimiter is {self.delimiter!r}; expected one ASCII character",
                hint="Give a delimiter such as ',' or '|'",
                code="DELTA_INVALID_SOURCE",
            )
        if len(self.quote) > 1 or not self.quote.isascii() or self.quote == self.delimiter:
            raise InvalidArgumentError(
                f"quote is {self.quote!r}; expected one ASCII character other than the delimiter",
                hint="Give the character around fields, or '' for none",
                code="DELTA_INVALID_SOURCE",
            )
        try:
            codecs.lookup(self.encoding)
        except LookupError as error:
            raise InvalidArgumentError(
                f"encoding is {self.encoding!r}; expected the name of a Python codec",
                hint="Give a name such as utf-8, latin-1 or cp1252",
                code="DELTA_INVALID_SOURCE",
            ) from error

        if self.kind == "json" and "\n".encode(self.encoding) != b"\n":
            raise InvalidArgumentError(
                f"encoding of JSON lines is {self.encoding!r}; expected a codec in which a line break is one byte",
                hint="Convert the files to utf-8",
                code="DELTA_INVALID_SOURCE",
            )

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name in ("utf-8", "ascii")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> SourceFormat:
        """The format that the parameters of the catalogue's operation ``ingest`` describe."""
        names = {option.name for option in fields(cls)} & values.keys()
        return cls(values["format"], header=not values["no_header"], **{name: values[name] for name in names})

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> SourceFormat:
        return cls(**value)  # type: ignore[arg-type]
