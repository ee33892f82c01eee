"""Plan the batches of a load, as pure functions.

A plan depends on the files in the landing folder, the intent log, and the table's log. The intent log (``intent_log``)
lists the files of each batch before the batch is loaded, and a fold replaces the entries of older batches. The ``txn``
action in the table's log has the number of the last batch that was committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib.arrow.values import bools, column, flags_of, is_true, literal, numbers_of
from lakehouse_lib.errors import IngestError
from lakehouse_lib.ingestion.intent_log import Intent, Outcome
from lakehouse_lib.ingestion.landing import Fingerprint, SourceFile
from lakehouse_lib.ingestion.landing.base import ETAG, NO_FILES
from lakehouse_lib.ingestion.state.folds import Fold
from lakehouse_lib.ingestion.state.settled_files import SETTLED

#: The largest number of files in a batch, so that its intent stays small.
MOST_FILES = 10_000


@dataclass(frozen=True)
class History:
    """The state of all batches of a source.

    Attributes:
        fold: the newest fold.
        recent: the files of the settled batches after the fold, as ``SETTLED``; each name once.
        settled: the numbers of the batches that are loaded or given up.
        loaded: the last batch that was loaded; None: none was.
        unsettled: the batch that a killed run has begun and not finished. The next run loads it with the same files.
            None: all batches are settled.
        next_number: the number of the next new batch.
    """

    fold: Fold
    recent: pa.Table
    settled: range
    loaded: int | None
    unsettled: Intent | None
    next_number: int


def history(
    fold: Fold,
    intents: Mapping[int, Intent],
    outcomes: Mapping[int, Outcome],
    committed: int | None,
    *,
    table: str,
    source: str,
) -> History:
    """The state of a source's batches, from the intent log and the table.

    Args:
        intents, outcomes: the entries of the batches after the fold, by batch number.
        committed: the batch in the table's ``txn`` of this source; None: the table has none.

    Raises:
        IngestError: the intent log and the table contradict each other, because one of them was deleted, restored or
            copied without the other. The next load could then load a file twice, or never.
    """
    newest = max(intents, default=fold.through)
    gaps = sorted(set(range(fold.through + 1, newest + 1)) - set(intents))
    if gaps or (committed is not None and committed > newest):
        raise IngestError(
            f"the intent log of source {source!r} has no batch {gaps[0] if gaps else committed}",
            table=table,
            hint=f"Restore _ingest/{source} beside the table; without it files could be loaded twice",
        )
    done = -1 if committed is None else committed
    settled = {n for n in intents if n <= done or (n in outcomes and outcomes[n].given_up is not None)}
    lost = sorted(n for n in intents if n not in settled and n != newest)
    if fold.loaded is not None and fold.loaded > done:
        lost.insert(0, fold.loaded)
    if lost:
        raise IngestError(
            f"batch {lost[0]} of source {source!r} was loaded, but the table has no txn of it",
            table=table,
            hint=f"If the table was recreated, move its folder _ingest/{source} away to load every file again",
        )
    unsettled = intents[newest] if newest in intents and newest not in settled else None
    return History(
        fold,
        _settled_rows([(intents[number], outcomes.get(number, Outcome(number))) for number in sorted(settled)]),
        range(newest + 1 if unsettled is None else newest),
        committed,
        unsettled,
        newest + 1,
    )


def _settled_rows(batches: list[tuple[Intent, Outcome]]) -> pa.Table:
    """A row of ``SETTLED`` for each file name of these batches, which are in ascending order.

    If several batches have the name, the row is that of the last one. The files of a batch that was given up are left
    out, except its refused files.
    """
    rows: dict[str, tuple[Any, ...]] = {}
    for intent, outcome in batches:
        for file in intent.files:
            if file.name in outcome.refused or outcome.given_up is None:
                refused = outcome.refused.get(file.name)
                definition = None if refused is None else intent.definition
                rows[file.name] = (
                    *(file.name, file.size, file.modified, file.digest),
                    *(intent.number, refused, definition),
                )
    columns = list(zip(*rows.values(), strict=True)) or [()] * len(SETTLED)
    arrays = [column(values, field.type) for values, field in zip(columns, SETTLED, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SETTLED)


@dataclass(frozen=True)
class FileStates:
    """The landing folder's files by state; each file has one state.

    Attributes:
        new: files to load, as ``landing.LISTING``.
        waiting: files that may still be growing.
        changed: by name, the batch of each loaded file whose content has changed since.
        refused: by name, the message of each refused file, if neither the file nor the source's definition has changed
            since.
    """

    new: pa.Table
    waiting: tuple[str, ...] = ()
    changed: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)


def sort_files(
    files: pa.Table,
    settled: pa.Table,
    *,
    now: int,
    settle: int,
    digest: Callable[[SourceFile], Fingerprint | None],
    definition: str,
) -> FileStates:
    """Sort files of the landing folder by state.

    Args:
        files: as ``landing.LISTING``.
        settled: a row for each of these files, from ``SettledFiles.lookup``.
        now: the time of the listing, in ms since the epoch.
        settle: a file modified less than this many ms ago may still be growing.
        digest: reads a whole file, and returns its fingerprint; None: the file has changed since the listing. It is
            called only for a file without an ETag, if a file of the same name and size, with another modification time,
            was loaded or refused before.
        definition: the source's definition. A file that was refused by another definition is new.
    """
    age = pc.abs(pc.subtract(files["modified"], literal(now, pa.int64())))
    is_waiting = pc.less(age, literal(settle, pa.int64()))
    is_known = pc.is_valid(settled["batch"])
    is_same = _is_same(files, settled, pc.and_(is_known, pc.invert(is_waiting)), digest)
    is_refused = pc.is_valid(settled["refused"])
    is_defined_same = is_true(pc.equal(settled["definition"], literal(definition, pa.string())))
    is_still_refused = pc.and_(is_refused, pc.and_(is_same, is_defined_same))
    is_new = pc.or_(pc.invert(is_known), pc.and_(is_refused, pc.invert(is_still_refused)))
    is_ready = pc.invert(is_waiting)
    changed = pc.and_(is_ready, pc.and_(pc.invert(is_new), pc.invert(is_same)))
    return FileStates(
        files.filter(pc.and_(is_ready, is_new)),
        tuple(files["name"].filter(is_waiting).to_pylist()),
        _by_name(settled, "batch", changed),
        _by_name(settled, "refused", pc.and_(is_ready, is_still_refused)),
    )


def _is_same(
    files: pa.Table, settled: pa.Table, chosen: Any, digest: Callable[[SourceFile], Fingerprint | None]
) -> Any:
    """A mask of the chosen files that have the content of the settled file of the same name; False for other files."""
    same_size = pc.and_(chosen, is_true(pc.equal(files["size"], settled["size"])))
    empty, prefix = literal("", pa.string()), literal(ETAG, pa.string())
    has_tag, had_tag = pc.not_equal(files["tag"], empty), is_true(pc.starts_with(settled["digest"], ETAG))
    same_tag = is_true(pc.equal(pc.binary_join_element_wise(prefix, files["tag"], empty), settled["digest"]))
    same_time = is_true(pc.equal(files["modified"], settled["modified"]))
    # If the files were moved to another kind of landing folder, only their sizes can be compared.
    is_moved = pc.xor(has_tag, had_tag)
    is_listed_same = pc.and_(same_size, pc.or_(is_moved, pc.if_else(has_tag, same_tag, same_time)))
    doubtful = pc.and_(pc.and_(same_size, pc.invert(is_listed_same)), pc.invert(has_tag))
    mask = flags_of(is_listed_same)
    for place in np.flatnonzero(flags_of(doubtful)):
        file = SourceFile(**files.slice(place, 1).to_pylist()[0])
        fingerprint = digest(file)
        mask[place] = fingerprint is not None and fingerprint.digest == settled["digest"][int(place)].as_py()
    return pa.chunked_array([bools(mask)])


def _by_name(settled: pa.Table, value: str, mask: Any) -> dict[str, Any]:
    rows = settled.select(["name", value]).filter(mask)
    return dict(zip(rows["name"].to_pylist(), rows[value].to_pylist(), strict=True))


def settled_states(first: FileStates, second: FileStates) -> FileStates:
    """The states of the files in the second of two listings; growing files are among the waiting files.

    A new file is growing if it is not new in the first listing, or has another size there.
    """
    places = pc.index_in(second.new["name"], first.new["name"].combine_chunks())
    is_settled = is_true(pc.equal(second.new["size"], first.new["size"].take(places)))
    growing = second.new.filter(pc.invert(is_settled))["name"].to_pylist()
    return replace(second, new=second.new.filter(is_settled), waiting=(*second.waiting, *growing))


def cut_batches(
    files: pa.Table, files_per_batch: int, bytes_per_batch: int | None = None
) -> Iterator[list[SourceFile]]:
    """Cut files into batches, in the order of the files.

    Args:
        files: as ``landing.LISTING``.
        files_per_batch: the largest number of files of a batch; ``MOST_FILES`` if it is larger.
        bytes_per_batch: the largest size of a batch with several files, in bytes; None: no limit.
    """
    ends = np.cumsum(numbers_of(files["size"], np.int64))
    start = 0
    while start < files.num_rows:
        stop = min(start + min(files_per_batch, MOST_FILES), files.num_rows)
        if bytes_per_batch is not None:
            limit = bytes_per_batch + (int(ends[start - 1]) if start else 0)
            stop = max(start + 1, min(stop, int(np.searchsorted(ends, limit, "right"))))
        yield [SourceFile(**row) for row in files.slice(start, stop - start).to_pylist()]
        start = stop


def unite_states(parts: list[FileStates]) -> FileStates:
    """The states of the files of all parts of a listing."""
    return FileStates(
        pa.concat_tables([NO_FILES, *(part.new for part in parts)]),
        tuple(name for part in parts for name in part.waiting),
        {name: batch for part in parts for name, batch in part.changed.items()},
        {name: message for part in parts for name, message in part.refused.items()},
    )
