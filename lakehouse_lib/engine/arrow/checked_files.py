"""A file system for pyarrow datasets that refuses data files which pyarrow would read differently than ``scan``.

pyarrow matches column names case-sensitively, but Delta ignores the case. pyarrow also does not cast some values, such
as nanoseconds. The footer of a file shows the names and the types of its columns. The footer is checked when pyarrow
opens the file, so the creation of a dataset opens no file for this check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.fs

from lakehouse_lib.engine.parquet.conform import may_become
from lakehouse_lib.engine.parquet.footer import missing_file
from lakehouse_lib.errors import InvalidArgumentError, ObjectNotFoundError, UnsupportedFeatureError

_FORMAT = pads.ParquetFileFormat(coerce_int96_timestamp_unit="us")
#: Bits of an integer type -> the least digits before the point of a decimal type to which pyarrow casts the integers.
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
#: A function that describes how values of the first type become others of the second type; None: they do not.
_Difference = Callable[[pa.DataType, pa.DataType], str | None]


class CheckedFiles(pyarrow.fs.FileSystemHandler):  # type: ignore[misc]  # pyarrow is untyped
    """A read-only file system that refuses files which pyarrow would read differently than ``scan``.

    Args:
        files: the underlying file system.
        columns: the columns to read from files, with the types of the dataset: those of the table without partition
            columns.
        declared: the same columns with the types of the table.
        table, version: the table's location and version, for errors.
    """

    def __init__(
        self, files: pyarrow.fs.FileSystem, columns: pa.Schema, declared: pa.Schema, *, table: str, version: int
    ) -> None:
        self._files = files
        self._columns = columns
        self._declared = declared
        self._table = table
        self._version = version

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CheckedFiles) and vars(other) == vars(self)

    def __hash__(self) -> int:
        return hash((self._table, self._version))

    def get_type_name(self) -> str:
        return f"checked+{self._files.type_name}"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: Sequence[str]) -> Any:
        return self._files.get_file_info(paths)

    def open_input_file(self, path: str) -> pa.NativeFile:
        """The file, opened for random access.

        Raises:
            ObjectNotFoundError: the file is missing.
            UnsupportedFeatureError: pyarrow would read a column incorrectly, or not at all.
        """
        try:
            source = self._files.open_input_file(path)
        except (FileNotFoundError, ObjectNotFoundError) as error:
            raise missing_file(path, table=self._table, version=self._version) from error
        try:
            stored = _FORMAT.inspect(source)
        except pa.ArrowException:  # a damaged file: pyarrow's error when it reads the file says more
            return source
        difference = next(differences(stored, self._columns, self._declared), None)
        if difference is not None:
            raise not_a_dataset(f"{difference} in {path}", table=self._table, version=self._version)
        return source

    def open_input_stream(self, path: str) -> pa.NativeFile:
        return self.open_input_file(path)

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise InvalidArgumentError(
            "the file system of a pyarrow dataset only reads files; it cannot list, write or delete them",
            table=self._table,
            hint="List files with DeltaTable.file_uris, and write with write_deltalake",
        )

    get_file_info_selector = create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse


def not_a_dataset(reason: str, *, table: str, version: int) -> UnsupportedFeatureError:
    """The error for a table that pyarrow would read incorrectly."""
    return UnsupportedFeatureError(
        f"the table cannot be a pyarrow dataset: {reason}",
        table=table,
        version=version,
        hint="Read it with to_pyarrow_table(columns, filters=...), or with scan(columns, predicate), which needs "
        "bounded memory",
    )


def differences(stored: pa.Schema, target: pa.Schema, declared: pa.Schema) -> Iterator[str]:
    """Descriptions of the columns of a file that pyarrow does not read as ``scan`` does.

    These are columns whose names differ in case, values that pyarrow does not cast, and types that ``scan`` refuses.

    Args:
        stored: the file's columns.
        target: the columns of the dataset.
        declared: these columns in the types of the table.
    """
    yield from _member_differences(list(stored), list(target), "", _cast_difference)
    yield from _member_differences(list(stored), list(declared), "", _type_difference)


def _member_differences(
    stored: Sequence[pa.Field], target: Sequence[pa.Field], above: str, difference: _Difference
) -> Iterator[str]:
    by_name = {field.name: field.type for field in stored}
    name_by_lower: dict[str, str] | None = None
    for field in target:
        kind = by_name.get(field.name)
        if kind is not None:
            if kind != field.type:
                yield from _value_differences(kind, field.type, above + field.name, difference)
            continue
        name_by_lower = {name.lower(): name for name in by_name} if name_by_lower is None else name_by_lower
        other = name_by_lower.get(field.name.lower())
        if other is not None:
            yield f"the column {above}{field.name} is named {above}{other}"


def _value_differences(stored: pa.DataType, target: pa.DataType, name: str, difference: _Difference) -> Iterator[str]:
    types = pa.types
    if types.is_struct(stored) and types.is_struct(target):
        yield from _member_differences(list(stored), list(target), f"{name}.", difference)
    elif types.is_map(stored) and types.is_map(target):
        yield from _value_differences(stored.key_type, target.key_type, f"{name}.key", difference)
        yield from _value_differences(stored.item_type, target.item_type, f"{name}.value", difference)
    elif hasattr(stored, "value_type") and hasattr(target, "value_type"):
        yield from _value_differences(stored.value_type, target.value_type, f"{name}.element", difference)
    elif (description := difference(stored, target)) is not None:
        yield f"the column {name} is {description}"


def _cast_difference(stored: pa.DataType, target: pa.DataType) -> str | None:
    """How pyarrow's cast of a primitive type to the dataset's type differs from that of ``scan``."""
    types = pa.types
    if types.is_timestamp(stored) and types.is_timestamp(target) and stored.unit == "ns" != target.unit:
        return "in nanoseconds"
    if (
        types.is_integer(stored)
        and types.is_decimal(target)
        and target.precision - target.scale < _DIGITS[stored.bit_width]
    ):
        return f"{stored}, not {target},"
    return None


def _type_difference(stored: pa.DataType, declared: pa.DataType) -> str | None:
    """Why ``scan`` would refuse a primitive type, which pyarrow may cast to other values."""
    while isinstance(stored, pa.DictionaryType | pa.BaseExtensionType):
        stored = stored.value_type if isinstance(stored, pa.DictionaryType) else stored.storage_type
    is_void = pa.types.is_null(stored) or pa.types.is_null(declared)
    if stored == declared or is_void or may_become(stored, declared):
        return None
    return f"{stored}, not {declared},"
