"""A process that reads corrupted tables, one number after the other, with limited memory."""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from lakehouse_lib.log import segment
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.commits import action_lines
from tests.fuzz.judges import Verdict, Witnesses, judge, judge_predicate, judge_schema
from tests.fuzz.mutations import Changed, mutate, mutate_text
from tests.peers import duckdb_delta

#: A table of the corpus has about 100 KB. This library's memory may be a multiple, besides memory that libraries keep.
MEMORY_LIMIT = 600 * 2**20
_ADDRESSES = 12 * 2**30  # allocators and threads reserve far more than they use
_PREDICATES = 0.12  # share of all inputs
_SCHEMAS = 0.08

_COMMIT = re.compile(r"^_delta_log/\d{20}\.json$")
#: Objects whose content the commits have too.
_SAID_TWICE = re.compile(r"^_delta_log/(.*\.checkpoint\..*|_sidecars/.*|_last_checkpoint|.*\.crc)$")

SQL = (
    "id > 3 AND id < 7",
    "id IN (1, 2, NULL) OR text IS NULL",
    "text LIKE 't1%' AND NOT (day = DATE '2020-01-02')",
    "price BETWEEN 0.25 AND 2.5",
    "moment >= TIMESTAMP '2020-01-01 03:00:00'",
    "part = 'p 1' OR part IS NULL",
    "day > '2020-01-03' AND id % 2 = 0",
    "lower(text) = 't1 é'",
    "id + 1 = 5 AND price * 2 > 1",
    "CASE WHEN id > 2 THEN text ELSE part END = 't4 é'",
    "coalesce(text, 'x') = 'x' AND id <> 5",
    "CAST(id AS STRING) = '3'",
)
SCHEMAS = (
    '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}},{"name":"b","type":{"type":'
    '"array","elementType":{"type":"struct","fields":[{"name":"c","type":"decimal(10,2)","nullable":false,"metadata":'
    '{"delta.columnMapping.id":4}}]},"containsNull":true},"nullable":true,"metadata":{"comment":"x"}}]}',
    '{"type":"struct","fields":[{"name":"m","type":{"type":"map","keyType":"string","valueType":{"type":"map","keyType":'
    '"date","valueType":"timestamp_ntz","valueContainsNull":false},"valueContainsNull":true},"nullable":true,'
    '"metadata":{"delta.typeChanges":[{"toType":"long","fromType":"integer"}]}}]}',
)


@dataclass(frozen=True)
class Input:
    """The input of a number. ``table`` is None for a schema."""

    table: Path | None
    said: str
    changed: Changed
    version: int | None = None
    sql: str | None = None
    schema: str | None = None


def choose(seed: int, number: int, corpus: list[Path]) -> Input:
    """The input of a number; equal for equal seeds and corpora."""
    rng = random.Random(f"{seed}/{number}")
    kind = rng.random()
    if kind < _SCHEMAS:
        text = mutate_text(rng, rng.choice(SCHEMAS))
        return Input(None, f"schema {text[:300]}", {}, schema=text)
    if kind < _SCHEMAS + _PREDICATES:
        sql = mutate_text(rng, rng.choice(SQL))
        tables = [table for table in corpus if table.name.startswith("delta-rs-")]
        return Input(rng.choice(tables), f"predicate {sql[:300]}", {}, sql=sql)
    table = rng.choice(corpus)
    files = {str(f.relative_to(table)): f.read_bytes() for f in sorted(table.rglob("*")) if f.is_file()}
    said, changed = mutate(rng, files)
    version = rng.randrange(3) if rng.random() < 0.1 else None
    return Input(
        table, f"{table.name}: {said}" + (f", version {version}" if version is not None else ""), changed, version
    )


def corrupt(case: Input, folder: Path) -> Path:
    """A corrupted copy of the input's table below ``folder``; an earlier copy is restored first."""
    assert case.table is not None
    root = folder / case.table.name
    if not root.exists():
        shutil.copytree(case.table, root)
    for path, data in case.changed.items():
        target = root / path
        if data is None:
            target.unlink(missing_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    return root


def restore(case: Input, folder: Path) -> None:
    """Undo ``corrupt``."""
    assert case.table is not None
    for path in case.changed:
        original, target = case.table / path, folder / case.table.name / path
        if original.exists():
            target.write_bytes(original.read_bytes())
        else:
            target.unlink(missing_ok=True)


def work(connection: Connection, seed: int, corpus: list[Path], scratch: Path) -> None:
    """Read the tables of incoming numbers. For each, send (what, text) for every step, then ("done", verdict)."""
    warnings.simplefilter("ignore")
    segment.LISTING_WAITS = ()  # a missing commit will not appear later
    action_lines._COLUMNAR_BYTES = 0  # commits are small here, and both parsers must get them
    witnesses = Witnesses(duckdb_delta())
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Rust prints each panic there; panics in this library come back as verdicts.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    while (number := connection.recv()) is not None:
        case = choose(seed, number, corpus)
        connection.send(("said", case.said))
        before = _peak(reset=True)
        peaks: list[int] = []

        def note(phase: str, peaks: list[int] = peaks) -> None:
            if phase == "others":  # the memory of other readers does not count
                peaks.append(_peak())
            connection.send(("phase", phase))

        try:
            verdict = _judged(case, scratch, witnesses, note)
        except Exception as error:  # an error of a reader is a verdict, so this error is the fuzzer's own
            verdict = Verdict("fuzzer", f"{type(error).__name__}: {error}")
        used = (peaks[0] if peaks else _peak()) - before
        if used > MEMORY_LIMIT and verdict.kind in ("answer", "refusal"):
            verdict = Verdict("memory", f"{used >> 20} MB")
        connection.send(("done", verdict))


def _judged(case: Input, scratch: Path, witnesses: Witnesses, note: object) -> Verdict:
    assert callable(note)
    if case.schema is not None:
        return judge_schema(case.schema, note)
    try:
        root = corrupt(case, scratch)
        if case.sql is not None:
            return judge_predicate(root, case.sql, witnesses, note)
        alone = not any(root.glob("_delta_log/*.checkpoint.*")) and not any(root.glob("_delta_log/*.compacted.json"))
        grows = case.version is None and alone
        CACHE.clear()  # objects of a log never change, except here
        # The other readers read commits that a compaction replaces. If only one of the two is corrupted, their answers
        # do not count.
        same_log = not any(root.glob("_delta_log/*.compacted.json"))
        twice = [_SAID_TWICE.search(path) is not None for path in case.changed]
        sound = case.table if all(twice) else None
        disagrees = any(twice) and any(map(_COMMIT.search, case.changed))
        others = witnesses if same_log else None
        return judge(root, case.version, others, note, grows=grows, sound=sound, disagrees=disagrees)
    finally:
        restore(case, scratch)


def _peak(*, reset: bool = False) -> int:
    """The most memory of this process in bytes, since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    match = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert match is not None
    return int(match[1]) * 1024
