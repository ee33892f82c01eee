"""The shares of the file tasks of a batch, as pure functions: groups of whole files, and parts of large files."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

from lakehouse_lib.ingestion.file_part import FilePart
from lakehouse_lib.ingestion.landing import Fingerprint
from lakehouse_lib.ingestion.sources.compression import codec_of
from lakehouse_lib.ingestion.sources.file_head import HEAD_BYTES, FileHead
from lakehouse_lib.ingestion.sources.source_format import SourceFormat

#: The largest number of bytes of source files in a task with several files.
_TASK_BYTES = 1 << 30
#: The approximate number of bytes of text for each byte of a compressed file.
_UNPACKED = 4


def task_groups(files: Sequence[Fingerprint], *, tasks: int, data_file_size: int) -> list[tuple[Fingerprint, ...]]:
    """The files of each file task, in groups of about equal size.

    Each task writes its own data files. Therefore there are at most as many tasks as data files of the target size that
    the bytes fill. So a batch of many small files becomes few data files.

    Args:
        tasks: the number of tasks that run at the same time.
        data_file_size: the target size of a data file in bytes.
    """
    weights = [_weight(file) for file in files]
    count = min(len(files), _most_tasks(sum(weights), tasks, data_file_size))
    groups: list[tuple[int, int, list[int]]] = [(0, group, []) for group in range(count)]
    for place in sorted(range(len(files)), key=lambda place: -weights[place]):
        weight, group, places = heapq.heappop(groups)
        heapq.heappush(groups, (weight + weights[place], group, [*places, place]))
    groups.sort(key=lambda entry: min(entry[2]))
    return [tuple(files[place] for place in sorted(places)) for _, _, places in groups]


def part_counts(
    files: Sequence[Fingerprint], source_format: SourceFormat, *, tasks: int, data_file_size: int
) -> dict[str, int]:
    """The number of parts of each file that is larger than a task's share and of a format that can be split.

    Args:
        tasks, data_file_size: as of ``task_groups``.
    """
    if not source_format.is_split:
        return {}
    total = sum(map(_weight, files))
    share = -(-total // _most_tasks(total, tasks, data_file_size)) if total else 1
    counts = {
        file.name: min((2 * file.size + share) // (2 * share), file.size // HEAD_BYTES)
        for file in files
        if codec_of(file.name) is None
    }
    return {name: count for name, count in counts.items() if count > 1}


def file_parts(
    files: Sequence[Fingerprint], counts: Mapping[str, int], heads: Mapping[str, FileHead]
) -> list[tuple[Fingerprint, FilePart]]:
    """The parts of the files that can be split. The parts of a file have about equal sizes, and are in their order.

    Args:
        counts: the number of parts of each file, by name.
        heads: the heads of the files that can be split, by name.
    """
    parts: list[tuple[Fingerprint, FilePart]] = []
    numbers = 0
    for file in files:
        head = heads.get(file.name)
        if head is None:
            continue
        count = counts[file.name] if head.most_parts is None else min(counts[file.name], head.most_parts)
        if count < 2:
            continue
        for place in range(count):
            numbers += place > 0
            begin, end = (file.size * cut // count for cut in (place, place + 1))
            parts.append((file, FilePart(numbers if place else 0, begin, end, head.columns)))
    return parts


def _weight(file: Fingerprint) -> int:
    return file.size * (_UNPACKED if codec_of(file.name) else 1) + 1


def _most_tasks(total: int, tasks: int, data_file_size: int) -> int:
    waves = max(1, -(-total // (_TASK_BYTES * tasks)))
    return min(-(-total // data_file_size), waves * tasks)
