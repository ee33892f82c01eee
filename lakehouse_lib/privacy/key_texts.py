"""Find the spellings of a key in a quarantine, which stores keys as the text of the source.

The load reads ``0004711`` as the number 4711, so a rejected record with that text belongs to the same person. No
SQL condition compares texts in this way on every engine. So this module reads the texts of a quarantine as the load
reads them. The texts that the load reads as one of the keys go into the predicate, which then compares only texts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import is_true
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.parquet.reader import TableReader
from lakehouse_lib.errors import DeltaError
from lakehouse_lib.ingestion.sources.casts import from_text
from lakehouse_lib.operations.files import file_shares
from lakehouse_lib.operations.listing import list_objects
from lakehouse_lib.privacy.stored_files import as_files, constants_of, stored_files
from lakehouse_lib.schema import PrimitiveType
from lakehouse_lib.snapshot import Snapshot

_NUMBER = r"^[0-9+\-.eE]+$"
_TEXTS_SCHEMA = pa.schema([pa.field("text", pa.string())])


@dataclass(frozen=True)
class KeyTexts:
    """A person's keys, to be compared with columns of text.

    Attributes:
        texts: the keys as text.
        numbers: the keys as numbers, an array for each numeric type that the load may give the column.
        text_is_key: whether the load also reads the column as text, so that any text can be a key.
    """

    texts: pa.Array
    numbers: tuple[pa.Array, ...]
    text_is_key: bool

    @classmethod
    def of(cls, values: Iterable[int | str], types: Collection[pa.DataType]) -> KeyTexts:
        """The keys ``values`` of a column that the load reads as one of ``types``."""
        texts = pa.array(sorted({str(value) for value in values}), pa.string())
        numeric = [key_type for key_type in types if is_number(key_type)]
        numbers = tuple(pc.drop_null(_read(texts, key_type)) for key_type in numeric)
        return cls(texts, numbers, len(numeric) < len(types))

    def among(self, texts: pa.Array) -> pa.Array:
        """For each text, whether it is one of the keys; never null."""
        is_key = pc.is_in(texts, value_set=self.texts)
        for keys in self.numbers:
            is_key = pc.or_(is_key, pc.is_in(_read(texts, keys.type), value_set=keys))
        return is_key

    def unreadable(self, texts: pa.Array) -> pa.Array:
        """For each text, whether the load cannot read it as a key; false for null."""
        if self.text_is_key:
            return pc.and_(pc.is_valid(texts), False)
        is_unreadable = pc.is_valid(texts)
        for keys in self.numbers:
            is_unreadable = pc.and_(is_unreadable, pc.is_null(_read(texts, keys.type)))
        return is_unreadable


def is_number(data_type: pa.DataType) -> bool:
    """Whether keys of this type are numbers."""
    return bool(pa.types.is_integer(data_type) or pa.types.is_decimal(data_type))


def read_keys(texts: pa.Array, types: Collection[pa.DataType]) -> set[int | str]:
    """The keys that the load reads in these texts, as one of ``types``; a text that is not such a key stays text."""
    texts = pc.unique(pc.drop_null(texts))
    keys: set[int | str] = set()
    as_text = pc.is_valid(texts)
    for key_type in types:
        if is_number(key_type):
            numbers = _read(texts, key_type)
            is_whole = (
                is_true(pc.equal(numbers, pc.floor(numbers))) if pa.types.is_decimal(key_type) else numbers.is_valid()
            )
            keys.update(int(value) for value in numbers.filter(is_whole).to_pylist())
            as_text = pc.and_(as_text, pc.invert(is_whole))
    if any(not is_number(key_type) for key_type in types):
        as_text = pc.is_valid(texts)
    return keys | set(texts.filter(as_text).to_pylist())


def _read(texts: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The texts as numbers, as a load with decimal points reads them; null for a text that is not such a number."""
    # A failing cast is slow, so only texts that look like numbers are cast.
    return from_text(pc.if_else(pc.match_substring_regex(texts, _NUMBER), texts, None), data_type)[0]


@dataclass(frozen=True)
class SpellingTask:
    """A task of the engine: find spellings of the keys in ``files`` (FILE_SCHEMA); ``reader`` reads the key column."""

    files: pa.Table
    reader: TableReader
    keys: KeyTexts


def spellings(snapshot: Snapshot, key: str, keys: KeyTexts, engine: Engine) -> set[str]:
    """The texts of a quarantine's column that the load would read as one of the keys.

    Every file on disk is read, with the rows that deletion vectors hide, because a purge has to find these rows. A file
    that cannot be read is skipped here, and reported by ``purge`` and ``prove``.
    """
    field = snapshot.field(key)
    if not keys.numbers or field.type != PrimitiveType("string"):
        return set()
    files = as_files(snapshot, stored_files(snapshot, list_objects(snapshot.store)).all_files, [field.name])
    reader = TableReader(snapshot.store, snapshot.layout, snapshot.layout.columns([field.name]))
    tasks = [SpellingTask(share, reader, keys) for share in file_shares(files, engine.parallelism)]
    return set(engine.run(find_spellings, tasks)["text"].to_pylist()) if tasks else set()


def find_spellings(task: SpellingTask) -> pa.Table:
    """The texts in the task's files that are one of the keys (_TEXTS_SCHEMA)."""
    matching_texts: set[str] = set()
    for path, pairs in zip(*(task.files[name].to_pylist() for name in ("path", "partitionValues")), strict=True):
        try:
            with task.reader.open(path, None) as file:
                values = constants_of(file, pairs, task.reader)
                for group in range(file.num_row_groups):
                    texts = pc.unique(pc.drop_null(task.reader.row_group(file, group, values).column(0)))
                    matching_texts.update(texts.filter(task.keys.among(texts)).to_pylist())
        except (DeltaError, pa.ArrowException, OSError):
            continue
    return pa.table([pa.array(sorted(matching_texts), pa.string())], schema=_TEXTS_SCHEMA)
