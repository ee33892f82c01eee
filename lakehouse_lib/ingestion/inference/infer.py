"""Infer the schema of files from their first rows, and rules that these rows keep. Nothing is written.

A type is inferred only if a load would read every text of the sample as this type.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakehouse_lib.arrow.values import strings
from lakehouse_lib.errors import InvalidArgumentError, LandingError, SourceRefusedError
from lakehouse_lib.ingestion.inference.column import InferredColumn
from lakehouse_lib.ingestion.landing import Fingerprint, LandedFile, Landing, SourceFile, open_landing
from lakehouse_lib.ingestion.landing.base import ETAG
from lakehouse_lib.ingestion.sources.blocks import TextBlock
from lakehouse_lib.ingestion.sources.compression import CODECS
from lakehouse_lib.ingestion.sources.csv import header_names, read_csv
from lakehouse_lib.ingestion.sources.json.reader import element_blocks, line_blocks, object_keys, read_json
from lakehouse_lib.ingestion.sources.orc import orc_head
from lakehouse_lib.ingestion.sources.parquet import parquet_head
from lakehouse_lib.ingestion.sources.source_format import TYPED_KINDS, SourceFormat
from lakehouse_lib.protocol.partition_values import folders
from lakehouse_lib.schema import Field, Schema

#: The largest number of files, and of blocks of each file, that are read.
_MOST_FILES = 20
_MOST_BLOCKS = 4
_KINDS = {
    "csv": "csv",
    "tsv": "csv",
    "txt": "csv",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "parquet": "parquet",
    "orc": "orc",
}
#: The least number of rows for a rule with the set of a column's values.
_LEAST_ROWS = 100


@dataclass(frozen=True)
class Inferred:
    """The schema and the suite that fit files.

    Attributes:
        files: the names of the files that were read.
        rows: the number of rows that were read.
        format: the format of the files.
        schema: a schema that fits all of these rows.
        suite: a suite that all of these rows pass.
        notes: hints for the user who checks the schema.
    """

    files: tuple[str, ...]
    rows: int
    format: SourceFormat
    schema: Schema
    suite: dict[str, Any]
    notes: tuple[str, ...]


def infer(location: str, values: Mapping[str, Any], storage_options: Mapping[str, str] | None = None) -> Inferred:
    """Infer a schema and a suite from the first rows of a file, or of the first files of a folder.

    Args:
        location: the location of the file or folder.
        values: parameters of the catalogue's ``ingest``; without ``format``, the name of the first file decides.

    Raises:
        LandingError: the file does not exist, or the folder has no files.
        SourceRefusedError: a file cannot be read, the first JSON file has no key, or a CSV or JSON file has other
            columns than the first file.
        InvalidArgumentError: the name of the first file has no known ending.
    """
    files = _files(location, values["pattern"], storage_options)
    kind = values["format"] or _kind_of(files[0].name)
    source_format = SourceFormat.of({**values, "format": kind})
    if kind == "json" and values["format"] is None and _begins_with_bracket(files[0]):
        source_format = replace(source_format, kind="json_array")
    inferred = (_of_typed if source_format.kind in TYPED_KINDS else _of_texts)(files, source_format)
    folder_columns = {
        name: None for file in files for name in _path_texts(file) if name not in source_format.path_columns
    }
    notes = [f"{name} is in the names of folders; to load it, add it to --path-columns" for name in folder_columns]
    fields = [*inferred.schema.fields, *_path_fields(files, source_format)]
    return replace(inferred, schema=Schema(fields), notes=(*inferred.notes, *notes))


def _path_texts(file: LandedFile) -> dict[str, str | None]:
    return folders(file.name.rpartition("/")[0])


def _path_fields(files: Sequence[LandedFile], source_format: SourceFormat) -> list[Field]:
    columns = [InferredColumn(name, source_format) for name in source_format.path_columns]
    for column in columns:
        column.add(strings([_path_texts(file).get(column.name) for file in files]))
    return [Field.from_arrow(pa.field(column.name, column.type)) for column in columns]


def _files(location: str, pattern: str | None, storage_options: Mapping[str, str] | None) -> list[LandedFile]:
    landing = open_landing(location, storage_options, pattern=pattern)
    path = Path(landing.location)
    if not landing.is_remote and path.is_file():
        return [_landed(file, folder) for folder in [open_landing(path.parent)] if (file := folder.find(path.name))]
    listed = (SourceFile(**row) for table in landing.files() for row in table.to_pylist())
    files = [_landed(file, landing) for file in islice(listed, _MOST_FILES)]
    if not files and landing.is_remote:
        folder, _, name = location.rstrip("/").rpartition("/")
        parent = open_landing(folder, storage_options)
        files = [_landed(file, parent) for file in [parent.find(name)] if file is not None]
    if not files:
        raise LandingError(f"{location} has no files", hint="Name a file, or a folder with files; see --pattern")
    return files


def _landed(file: SourceFile, landing: Landing) -> LandedFile:
    # Nothing compares the digest: the file is read once.
    return LandedFile(
        landing, Fingerprint(file.name, file.size, file.modified, f"{ETAG}{file.tag}" if file.tag else "")
    )


def _kind_of(name: str) -> str:
    stem, suffix = posixpath.splitext(name)
    if suffix in CODECS:
        suffix = posixpath.splitext(stem)[1]
    kind = _KINDS.get(suffix.removeprefix(".").lower())
    if kind is None:
        raise InvalidArgumentError(
            f"the file {name} has no known extension; expected one of {', '.join(f'.{each}' for each in _KINDS)}",
            hint="Give the format as --format",
            code="DELTA_INVALID_SOURCE",
        )
    return kind


def _begins_with_bracket(file: LandedFile) -> bool:
    first = next(line_blocks(file), b"")
    return first.lstrip()[:1] == b"["


def _of_typed(files: Sequence[LandedFile], source_format: SourceFormat) -> Inferred:
    """The schema of the first file, with a note for each file that has another schema."""
    heads = [(orc_head if source_format.kind == "orc" else parquet_head)(file) for file in files]
    schemas, rows = [schema for schema, _ in heads], sum(rows for _, rows in heads)
    notes = [
        f"{file.name} has other columns than {files[0].name}"
        for file, schema in zip(files, schemas, strict=True)
        if not schema.equals(schemas[0])
    ]
    plain = [pa.field(field.name, field.type) for field in schemas[0]]
    suite = _suite(source_format, [])
    return Inferred(_names(files), rows, source_format, Schema.from_arrow(pa.schema(plain)), suite, tuple(notes))


def _of_texts(files: Sequence[LandedFile], source_format: SourceFormat) -> Inferred:
    names, notes = _columns(files[0], source_format)
    schema = pa.schema([(name, pa.string()) for name in names])
    columns = [InferredColumn(name, source_format) for name in names]
    for file in files:
        for block in _blocks(file, source_format, schema):
            for column, texts in zip(columns, block.texts, strict=True):
                column.add(texts)
    fields = [Field.from_arrow(pa.field(column.name, column.type)) for column in columns]
    rows = columns[0].rows
    notes += [f"{column.name} has no value, so its type is unknown" for column in columns if column.nulls == rows]
    notes += [
        f"{column.name} has times without a zone, which a load reads as UTC" for column in columns if column.is_unzoned
    ]
    return Inferred(_names(files), rows, source_format, Schema(fields), _suite(source_format, columns), tuple(notes))


def _columns(file: LandedFile, source_format: SourceFormat) -> tuple[list[str], list[str]]:
    """The columns of a file, and notes about them."""
    if source_format.kind == "csv":
        names = header_names(file, source_format)
        if len(names) == 1:
            return names, [f"the only column is {names[0]!r}; is {source_format.delimiter!r} the delimiter?"]
        return names, []
    utf8 = replace(source_format, encoding="utf-8")
    keys: dict[str, bool] = {}
    blocks: Iterator[bytes] = line_blocks(file)
    if source_format.kind == "json_array":
        blocks, source_format = (block.lines for block in element_blocks(file, source_format)), utf8
    for block in islice(blocks, _MOST_BLOCKS):
        for name, is_nested in object_keys(block, source_format).items():
            keys[name] = keys.get(name, False) or is_nested
    if not keys:
        raise SourceRefusedError(
            f"the first rows of {file.name} have no key; expected JSON objects with the columns as keys",
            hint="Name a file with rows, or correct the file",
        )
    nested = [name for name, is_nested in keys.items() if is_nested]
    needed = "which need a struct, an array or a map in the schema"
    return list(keys), [f"{name} has nested values, {needed}" for name in nested]


def _blocks(file: LandedFile, source_format: SourceFormat, schema: pa.Schema) -> Iterator[TextBlock]:
    """The texts of the first blocks of a file."""
    read = read_csv if source_format.kind == "csv" else partial(read_json, as_text=True)
    for parse in islice(read(file, source_format, schema), _MOST_BLOCKS):
        block = parse()
        assert isinstance(block, TextBlock)
        yield block


def _names(files: Sequence[LandedFile]) -> tuple[str, ...]:
    return tuple(file.name for file in files)


def _suite(source_format: SourceFormat, columns: Sequence[InferredColumn]) -> dict[str, Any]:
    """Rules that the rows pass, in the JSON of Great Expectations."""
    rules = [_rule("has rows", "expect_table_row_count_to_be_between", min_value=1)]
    for column in columns:
        name = column.name
        if column.rows and not column.nulls:
            rules.append(_rule(f"{name} is not null", "expect_column_values_to_not_be_null", column=name))
        if column.least is not None and column.least >= 0 and not pa.types.is_string(column.type):
            kind = "expect_column_values_to_be_between"
            rules.append(_rule(f"{name} is not negative", kind, column=name, min_value=0))
        if column.values and column.rows >= _LEAST_ROWS and pa.types.is_string(column.type):
            kind = "expect_column_values_to_be_in_set"
            rules.append(_rule(f"{name} is known", kind, column=name, value_set=sorted(column.values)))
    return {"name": f"inferred from {source_format.kind} files", "expectations": rules}


def _rule(identity: str, kind: str, **kwargs: Any) -> dict[str, Any]:
    return {"type": kind, "kwargs": kwargs, "meta": {"rule_id": identity}}
