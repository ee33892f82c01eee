"""How a source's files are written down: CSV, JSON lines or Parquet, and what one has to know to read them."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from lakehouse_lib.errors import InvalidArgumentError

KINDS = ("csv", "json", "parquet")


@dataclass(frozen=True)
class SourceFormat:
    """The format of a source's files; ``.gz`` files of CSV and JSON lines are unpacked on the way.

    Attributes:
        kind: ``csv``, ``json`` (one object a line) or ``parquet``.
        delimiter: CSV: one character between fields.
        quote: CSV: the character around fields, doubled inside them; "" for none.
        encoding: CSV and JSON: any codec of Python.
        header: CSV: the first record names the columns; without it they come in the schema's order.
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
                f"{self.kind!r} is not a valid source format",
                hint=f"Use one of {', '.join(KINDS)}",
                code="DELTA_INVALID_SOURCE",
            )
        if len(self.delimiter) != 1 or not self.delimiter.isascii() or self.delimiter in "\r\n":
            raise InvalidArgumentError(
                f"{self.delimiter!r} is no delimiter",
                hint="Use one ASCII character, such as ',' or '|'",
                code="DELTA_INVALID_SOURCE",
            )
        if len(self.quote) > 1 or not self.quote.isascii() or self.quote == self.delimiter:
            raise InvalidArgumentError(
                f"{self.quote!r} is not a valid quote character",
                hint="Use one ASCII character other than the delimiter",
                code="DELTA_INVALID_SOURCE",
            )
        try:
            codecs.lookup(self.encoding)
        except LookupError as error:
            raise InvalidArgumentError(
                f"{self.encoding!r} is not a valid encoding",
                hint="Use a name Python knows, such as utf-8, latin-1 or cp1252",
                code="DELTA_INVALID_SOURCE",
            ) from error

        if self.kind == "json" and "\n".encode(self.encoding) != b"\n":
            raise InvalidArgumentError(
                f"JSON lines cannot be told apart in {self.encoding}",
                hint="Convert the files to utf-8",
                code="DELTA_INVALID_SOURCE",
            )

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name in ("utf-8", "ascii")

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, object]) -> SourceFormat:
        return cls(**value)  # type: ignore[arg-type]
