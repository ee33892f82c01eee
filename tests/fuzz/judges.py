"""The answers of this library and of other readers to a table, as comparable values, and the verdict on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from lakehouse_lib.errors import DeltaError
from lakehouse_lib.expressions import parse
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.schema import Schema
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.store import open_store
from lakehouse_lib.table.delta_table import DeltaTable
from tests.peers import plain

_MODERN = 1901  # from this year on, the two calendars and their time zones agree
MANY_ROWS = 5_000  # more than any table of the corpus; a corrupted table with more rows is compared by its count


@dataclass(frozen=True)
class Answer:
    """``rows``: every row in the plain form, or None if only names and the count can be compared."""

    names: tuple[str, ...]
    count: int
    rows: Any


@dataclass(frozen=True)
class Verdict:
    """``kind``: "answer" | "refusal" | "bare" | "contradicted"; "hung", "crashed" and "memory" come from the runner."""

    kind: str
    detail: str = ""


def ask_us(root: Path, version: int | None, *, grows: bool) -> Answer:
    """The answers of this library to every kind of read; its errors are raised.

    Args:
        grows: whether an update of an older snapshot must give the same table. It need not if a checkpoint or a
            compaction replaces commits, because only one of the two is corrupted.
    """
    table = DeltaTable(root, version=version)
    snapshot = load_snapshot(open_store(root), version)
    _touch(snapshot)
    table.history()
    table.detail()
    table.get_add_actions(flatten=True)
    rows = table.to_pyarrow_table()
    if grows:
        _grown(snapshot)
    return _answer(rows)


def ask_us_about_changes(root: Path) -> None:
    """The change data feed of all versions."""
    changes: pa.RecordBatchReader = DeltaTable(root).load_cdf(starting_version=0)
    changes.read_all()


def ask_us_about(root: Path, sql: str) -> Answer:
    """The rows that match a predicate, from files that it does not prune."""
    return _answer(DeltaTable(root).to_pyarrow_table(filters=sql))


def judge(
    root: Path,
    version: int | None,
    witnesses: Witnesses | None,
    note: Callable[[str], None],
    *,
    grows: bool,
    sound: Path | None = None,
    disagrees: bool = False,
) -> Verdict:
    """Read a table with this library and, if it gives an answer, with the other readers.

    Args:
        grows: as for ``ask_us``.
        note: called with the next reader's name, so that the runner knows which reader hangs.
        sound: the table before its corruption, if only objects are corrupted whose content the commits also have. Then
            its answer is right, whatever other readers read from the corrupted table.
        disagrees: whether both a checkpoint and a commit are corrupted. Then this library may refuse the checkpoint and
            read the commits, while other readers read the checkpoint; both answers are right.
    """
    note("us")
    try:
        our_answer = ask_us(root, version, grows=grows)
        note("us: changes")
        if version is None:
            _or_refused(lambda: ask_us_about_changes(root))
    except DeltaError as error:
        return _refusal(error)
    except Exception as error:
        return Verdict("bare", _shown(error))
    note("others")
    if witnesses is None:
        return Verdict("answer")
    verdict = _compared(root, our_answer, witnesses.rows(root, version))
    if verdict.kind != "contradicted":
        return verdict
    if sound is not None and _same(our_answer, ask_us(sound, version, grows=False)):
        return Verdict("answer")
    # The other readers take protocol and metadata from a checksum without comparing it with the log, which counts.
    with _without(root.glob("_delta_log/*.crc")):
        verdict = _compared(root, our_answer, witnesses.rows(root, version))
    if verdict.kind != "contradicted":
        return verdict
    # The other readers read a file's rows as often as the file is in a checkpoint. The commits are right.
    checkpoints = list(root.glob("_delta_log/*.checkpoint*"))
    unused = checkpoints if disagrees else [file for file in checkpoints if _has_path_twice(file)]
    if not unused:
        return verdict
    with _without([*unused, *root.glob("_delta_log/_last_checkpoint")]):
        return _compared(root, our_answer, witnesses.rows(root, version))


def _has_path_twice(checkpoint: Path) -> bool:
    try:
        paths = pq.read_table(checkpoint)["add"].combine_chunks().field("path").drop_null()
    except (pa.ArrowException, OSError, KeyError, ValueError):
        return False
    return len(paths.unique()) < len(paths)


@contextmanager
def _without(files: Iterable[Path]) -> Iterator[None]:
    taken = {file: file.read_bytes() for file in files}
    for file in taken:
        file.unlink()
    try:
        yield
    finally:
        for file, data in taken.items():
            file.write_bytes(data)


def judge_predicate(root: Path, sql: str, witnesses: Witnesses, note: Callable[[str], None]) -> Verdict:
    """The same for a predicate on a valid table."""
    note("us")
    try:
        our_answer = ask_us_about(root, sql)
    except DeltaError as error:
        return _refusal(error)
    except Exception as error:
        return Verdict("bare", _shown(error))
    if "\\" in sql:  # Spark and this library treat it as an escape in a text, the others as a normal character
        return Verdict("answer")
    note("others")
    return _compared(root, our_answer, witnesses.matching(root, sql))


def judge_schema(text: str, note: Callable[[str], None]) -> Verdict:
    """Read a schema, write it, convert it to Arrow and compare; no other kind of error may be raised."""
    note("us")
    try:
        schema = Schema.from_json(text)
        assert Schema.from_json(schema.to_json()) == schema
        hash(schema)
        schema.to_arrow()
        parse("1 = 1", schema)
    except DeltaError as error:
        return _refusal(error)
    except Exception as error:
        return Verdict("bare", _shown(error))
    return Verdict("answer")


class Witnesses:
    """delta-rs (by SQL and by pyarrow) and DuckDB; an answer that one of them cannot give does not count."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._duckdb = connection

    def rows(self, root: Path, version: int | None) -> list[list[Answer]]:
        """The answers of delta-rs and of DuckDB; a list is empty if there is none."""
        condition = f", version => {version}" if version is not None else ""
        return [
            self._answers(lambda: self._delta_rs(root, version, ""), lambda: _delta_rs_pyarrow(root, version)),
            self._answers(
                lambda: self._duckdb.execute(f"SELECT * FROM delta_scan($1{condition})", [str(root)]).to_arrow_table()
            ),
        ]

    def matching(self, root: Path, sql: str) -> list[list[Answer]]:
        return [
            self._answers(lambda: self._delta_rs(root, None, f" WHERE ({sql}\n)")),
            self._answers(
                lambda: self._duckdb.execute(
                    f"SELECT * FROM delta_scan($1) WHERE ({sql}\n)", [str(root)]
                ).to_arrow_table()
            ),
        ]

    def _delta_rs(self, root: Path, version: int | None, where: str) -> pa.Table:
        table = deltalake.DeltaTable(str(root), version=version)
        return pa.table(deltalake.QueryBuilder().register("t", table).execute(f"SELECT * FROM t{where}"))

    def _answers(self, *readers: Callable[[], pa.Table]) -> list[Answer]:
        answers = []
        for read in readers:
            try:
                answers.append(_answer(read()))
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException:
                continue
        return answers


def _delta_rs_pyarrow(root: Path, version: int | None) -> pa.Table:
    return deltalake.DeltaTable(str(root), version=version).to_pyarrow_table()


def _touch(snapshot: Snapshot) -> None:
    snapshot.schema.to_json()
    file_paths.decode_all(snapshot.files["path"], snapshot.store)
    len(snapshot.tombstones)
    dict(snapshot.transactions)
    dict(snapshot.domains)


def _grown(snapshot: Snapshot) -> None:
    """Check that an update of an older snapshot gives the same files, if the older snapshot can be read."""
    if snapshot.version < 1:
        return
    try:
        older = load_snapshot(snapshot.store, snapshot.version - 1)
    except DeltaError:
        return
    grown = older.update()
    assert grown.version == snapshot.version, "update() came to another version"
    paths, grown_paths = (sorted(state.files["path"].to_pylist()) for state in (snapshot, grown))
    assert paths == grown_paths, f"update() came to other files: {paths} and {grown_paths}"
    assert grown.schema == snapshot.schema, "update() came to another schema"


def _answer(table: pa.Table) -> Answer:
    rows = None
    if len(table) <= MANY_ROWS:
        try:
            rows = [tuple(map(_value, row.values())) for row in plain(table).to_pylist()]
            rows.sort(key=repr)
        except (pa.ArrowException, ValueError, OverflowError, TypeError):
            rows = None
    return Answer(tuple(table.column_names), len(table), rows)


def _value(value: Any) -> Any:
    """A value for comparisons, in which NaN equals NaN."""
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list):
        return [_value(item) for item in value]
    if isinstance(value, tuple):
        return tuple(map(_value, value))
    return {key: _value(item) for key, item in value.items()} if isinstance(value, dict) else value


def _compared(root: Path, our_answer: Answer, their_answers: list[list[Answer]]) -> Verdict:
    delta_rs, duck = their_answers
    agreed = [answer for answer in delta_rs for other in duck if _same(answer, other)]
    if not agreed or any(_same(our_answer, answer) for answer in agreed):
        return Verdict("answer")
    # Neither reader has Spark's legacy calendar, so their days do not count.
    if _of_old_calendar(root) and any(
        _same(_without_old_days(our_answer), _without_old_days(answer)) for answer in agreed
    ):
        return Verdict("answer")
    return Verdict("contradicted", _difference(our_answer, agreed[0]))


def _of_old_calendar(root: Path) -> bool:
    return any(b"org.apache.spark.legacyDateTime" in file.read_bytes() for file in root.rglob("*.parquet"))


def _without_old_days(answer: Answer) -> Answer:
    if answer.rows is None:
        return answer
    rows = [tuple(None if isinstance(v, date) and v.year < _MODERN else v for v in row) for row in answer.rows]
    return Answer(answer.names, answer.count, sorted(rows, key=repr))


def _same(answer: Answer, other: Answer) -> bool:
    if (answer.names, answer.count) != (other.names, other.count):
        return False
    return answer.rows is None or other.rows is None or answer.rows == other.rows


def _difference(our_answer: Answer, their_answer: Answer) -> str:
    if our_answer.names != their_answer.names:
        return f"columns {our_answer.names!r:.150}, theirs {their_answer.names!r:.150}"
    if our_answer.count != their_answer.count:
        return f"{our_answer.count} rows, theirs {their_answer.count}"
    pairs = [(a, b) for a, b in zip(our_answer.rows, their_answer.rows, strict=True) if a != b]
    return f"{len(pairs)} rows differ: {pairs[0][0]!r:.200} is {pairs[0][1]!r:.200}"


def _or_refused(ask: Callable[[], None]) -> None:
    try:
        ask()
    except DeltaError as error:
        _check_words(error)


def _refusal(error: DeltaError) -> Verdict:
    try:
        _check_words(error)
    except AssertionError as problem:
        return Verdict("bare", str(problem))
    return Verdict("refusal", type(error).__name__)


def _check_words(error: DeltaError) -> None:
    text = str(error)
    assert len(text) < 5_000, f"an error of {len(text)} characters: {text[:200]}"


def _shown(error: BaseException) -> str:
    import traceback

    frames = [
        f"{Path(f.filename).name}:{f.lineno}"
        for f in traceback.extract_tb(error.__traceback__)
        if "lakehouse_lib" in f.filename
    ]
    return f"{type(error).__name__}: {str(error)[:200]} at {' > '.join(frames[-4:])}"
