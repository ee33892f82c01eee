"""Plan the batches of a load, as pure functions.

A plan depends on the files in the landing folder, on the intent log (``intent_log``: the files of each batch, recorded
before the batch is loaded), and on the ``txn`` in the table's log (the last batch that was committed).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from lakehouse_lib.errors import IngestError
from lakehouse_lib.ingestion.intent_log import Intent, Outcome
from lakehouse_lib.ingestion.landing import Fingerprint, SourceFile


@dataclass(frozen=True)
class History:
    """The state of all batches of a source, and of their files.

    Attributes:
        loaded: by file name, the fingerprint of a loaded file and the number of its batch.
        refused: by file name, the fingerprint of a rejected file and the message.
        settled: numbers of the batches that are loaded or given up.
        unsettled: the batch that a killed run has begun and not finished. The next run loads it with the same files.
            None: all batches are settled.
        next_number: the number of the next new batch.
    """

    loaded: Mapping[str, tuple[Fingerprint, int]]
    refused: Mapping[str, tuple[Fingerprint, str]]
    settled: frozenset[int]
    unsettled: Intent | None
    next_number: int


def history(
    intents: Mapping[int, Intent], outcomes: Mapping[int, Outcome], committed: int | None, *, table: str, source: str
) -> History:
    """The state of a source's batches, from the intent log and the table.

    Args:
        committed: the batch in the table's ``txn`` of this source; None: the table has none.

    Raises:
        IngestError: the intent log and the table contradict each other, because one of them was deleted, restored or
            copied without the other. The next load could then load a file twice, or never.
    """
    newest = max(intents, default=-1)
    gaps = sorted(set(range(newest + 1)) - set(intents))
    if gaps or (committed is not None and committed not in intents):
        raise IngestError(
            f"the intent log of source {source!r} has no batch {gaps[0] if gaps else committed}",
            table=table,
            hint=f"Restore _ingest/{source} beside the table; without it files could be loaded twice",
        )
    done = -1 if committed is None else committed
    settled = frozenset(n for n in intents if n <= done or (n in outcomes and outcomes[n].given_up is not None))
    lost = sorted(n for n in intents if n not in settled and n != newest)
    if lost:
        raise IngestError(
            f"batch {lost[0]} of source {source!r} was loaded, but the table has no txn of it",
            table=table,
            hint=f"If the table was recreated, move its folder _ingest/{source} away to load every file again",
        )
    loaded: dict[str, tuple[Fingerprint, int]] = {}
    refused: dict[str, tuple[Fingerprint, str]] = {}
    for number in sorted(settled):
        outcome = outcomes.get(number, Outcome(number))
        for file in intents[number].files:
            if file.name in outcome.refused:
                refused[file.name] = (file, outcome.refused[file.name])
            elif outcome.given_up is None:
                refused.pop(file.name, None)
                loaded[file.name] = (file, number)
    unsettled = intents[newest] if newest >= 0 and newest not in settled else None
    return History(loaded, refused, settled, unsettled, newest + 1)


@dataclass(frozen=True)
class Sorted:
    """The landing folder's files by state; each file has one state.

    Attributes:
        new: files to load.
        waiting: files that may still be growing.
        changed: by name, the batch of a loaded file that has other content now.
        refused: by name, the message of a rejected file that is unchanged.
    """

    new: tuple[SourceFile, ...]
    waiting: tuple[str, ...]
    changed: Mapping[str, int]
    refused: Mapping[str, str]


def sort_files(
    files: Mapping[str, SourceFile],
    growing: set[str],
    past: History,
    digest: Callable[[SourceFile], Fingerprint | None],
) -> Sorted:
    """Sort the landing folder's files by state.

    Args:
        growing: names of files that may still be growing.
        past: the state of the batches before this run.
        digest: reads a whole file. It is called only if a file of the same name and size, with another modification
            time, was loaded or rejected before.
    """
    new: list[SourceFile] = []
    waiting: list[str] = []
    changed: dict[str, int] = {}
    refused: dict[str, str] = {}
    for name, file in files.items():
        if name in growing:
            waiting.append(name)
            continue
        if name in past.refused and _same(past.refused[name][0], file, digest):
            refused[name] = past.refused[name][1]
        elif name in past.loaded:
            before, batch = past.loaded[name]
            if not _same(before, file, digest):
                changed[name] = batch
        else:
            new.append(file)
    return Sorted(tuple(new), tuple(waiting), changed, refused)


def still_growing(
    first: Mapping[str, SourceFile], second: Mapping[str, SourceFile], *, now: int, settle: int
) -> set[str]:
    """Names of files in the second listing that may still be growing.

    Args:
        first, second: two listings of the folder; a file grows if it is new in the second or has another size there.
        now: the time of the second listing, in ms since the epoch.
        settle: a file modified less than this many ms ago may still be growing.
    """
    return {
        name
        for name, file in second.items()
        if abs(now - file.modified) < settle or name not in first or first[name].size != file.size
    }


def cut(files: Sequence[SourceFile], files_per_batch: int) -> list[Sequence[SourceFile]]:
    """The files in batches of at most ``files_per_batch``, in their order."""
    return [files[start : start + files_per_batch] for start in range(0, len(files), files_per_batch)]


def _same(before: Fingerprint, file: SourceFile, digest: Callable[[SourceFile], Fingerprint | None]) -> bool:
    if before.same_stat(file):
        return True
    if before.size != file.size:
        return False
    now = digest(file)
    return now is not None and now.digest == before.digest
