"""Keys in quarantine are text as it came: which texts are a key that is looked for.

The load reads ``0004711`` as the number 4711, so a record with that text, refused for another column, is the same
person's. No SQL says so to every engine alike. So the texts that are there are read as the load reads them, and those
that are one of the keys go into the predicate, which then only compares texts.
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
from lakehouse_lib.operations.vacuum import list_objects
from lakehouse_lib.privacy.stored_files import as_files, constants_of, stored_files
from lakehouse_lib.schema import PrimitiveType
from lakehouse_lib.snapshot import Snapshot

_TASKS_A_THREAD = 4
_NUMBER = r"^[0-9+\-.eE]+$"
_FOUND_SCHEMA = pa.schema([pa.field("text", pa.string())])


@dataclass(frozen=True)
class KeyTexts:
    """Keys that are looked for in columns of text.

    Attributes:
        texts: the keys as text.
        numbers: the same keys as the load reads them, once for each numeric type that the key has where it is loaded.
        text_is_key: whether a text that is none of these numbers can be a key all the same.
    """

    texts: pa.Array
    numbers: tuple[pa.Array, ...]
    text_is_key: bool

    @classmethod
    def of(cls, values: Iterable[int | str], types: Collection[pa.DataType]) -> KeyTexts:
        """The keys ``values``, where the column is loaded as one of ``types``."""
        texts = pa.array(sorted({str(value) for value in values}), pa.string())
        numeric = [key_type for key_type in types if is_number(key_type)]
        numbers = tuple(pc.drop_null(_read(texts, key_type)) for key_type in numeric)
        return cls(texts, numbers, len(numeric) < len(types))

    def among(self, texts: pa.Array) -> pa.Array:
        """For each text whether it is one of the keys; never null."""
        is_key = pc.is_in(texts, value_set=self.texts)
        for keys in self.numbers:
            is_key = pc.or_(is_key, pc.is_in(_read(texts, keys.type), value_set=keys))
        return is_key

    def unreadable(self, texts: pa.Array) -> pa.Array:
        """For each text whether the load reads no key in it; false for null."""
        if self.text_is_key:
            return pc.and_(pc.is_valid(texts), False)
        bad = pc.is_valid(texts)
        for keys in self.numbers:
            bad = pc.and_(bad, pc.is_null(_read(texts, keys.type)))
        return bad


def is_number(data_type: pa.DataType) -> bool:
    """Whether keys of this type are numbers."""
    return bool(pa.types.is_integer(data_type) or pa.types.is_decimal(data_type))


def read_keys(texts: pa.Array, types: Collection[pa.DataType]) -> set[int | str]:
    """The keys that a load as one of ``types`` reads in these texts; a text it reads no whole number in is itself."""
    texts = pc.unique(pc.drop_null(texts))
    keys: set[int | str] = set()
    as_text = pc.is_valid(texts)
    for key_type in types:
        if is_number(key_type):
            read = _read(texts, key_type)
            whole = is_true(pc.equal(read, pc.floor(read))) if pa.types.is_decimal(key_type) else read.is_valid()
            keys.update(int(value) for value in read.filter(whole).to_pylist())
            as_text = pc.and_(as_text, pc.invert(whole))
    if any(not is_number(key_type) for key_type in types):
        as_text = pc.is_valid(texts)
    return keys | set(texts.filter(as_text).to_pylist())


def _read(texts: pa.Array, data_type: pa.DataType) -> pa.Array:
    """The numbers that the load reads; null where it reads none."""
    # What is not a number at all costs a cast of its own.
    return from_text(pc.if_else(pc.match_substring_regex(texts, _NUMBER), texts, None), data_type)[0]


@dataclass(frozen=True)
class SpellingTask:
    """Look for the keys in these files (FILE_SCHEMA); ``reader`` reads the key column alone."""

    files: pa.Table
    reader: TableReader
    keys: KeyTexts


def spellings(snapshot: Snapshot, key: str, keys: KeyTexts, engine: Engine) -> set[str]:
    """The texts of a quarantine's column that are one of the keys, but for the keys as they are.

    Live files are read and every other file on disk, with rows that deletion vectors hide: a purge has to reach them.
    A file that cannot be read is passed over; a proof names it.
    """
    field = snapshot.field(key)
    if not keys.numbers or field.type != PrimitiveType("string"):
        return set()
    files = as_files(snapshot, stored_files(snapshot, list_objects(snapshot.store)).every, [field.name])
    reader = TableReader(snapshot.store, snapshot.layout, snapshot.layout.columns([field.name]))
    count = max(1, -(-len(files) // (engine.parallelism * _TASKS_A_THREAD)))
    tasks = [
        SpellingTask(files.slice(start, count).combine_chunks(), reader, keys) for start in range(0, len(files), count)
    ]
    return set(engine.run(find_spellings, tasks)["text"].to_pylist()) if tasks else set()


def find_spellings(task: SpellingTask) -> pa.Table:
    """The task's texts that are one of the keys (_FOUND_SCHEMA)."""
    matching_texts: set[str] = set()
    for path, noted in zip(*(task.files[name].to_pylist() for name in ("path", "partitionValues")), strict=True):
        try:
            with task.reader.open(path, None) as file:
                values = constants_of(file, noted, task.reader)
                for group in range(file.num_row_groups):
                    texts = pc.unique(pc.drop_null(task.reader.row_group(file, group, values).column(0)))
                    matching_texts.update(texts.filter(task.keys.among(texts)).to_pylist())
        except (DeltaError, pa.ArrowException, OSError):
            continue
    return pa.table([pa.array(sorted(matching_texts), pa.string())], schema=_FOUND_SCHEMA)
