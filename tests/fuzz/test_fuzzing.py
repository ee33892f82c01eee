"""The short form of `make fuzz`, and tests that its parts find errors."""

from __future__ import annotations

import random
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.log.cache import CACHE
from tests.fuzz import corpus, judges, runner, worker
from tests.fuzz.mutations import mutate
from tests.peers import duckdb_delta

pytestmark = pytest.mark.slow

#: Slow inputs count only in the long form; here only wrong answers do.
INPUTS = 250
SEED = 20_261_121


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return corpus.build(tmp_path_factory.mktemp("fuzz") / "corpus")


def test_every_table_of_the_corpus_is_read_like_other_readers_read_it(tables: list[Path]) -> None:
    witnesses = judges.Witnesses(duckdb_delta())
    for table in tables:
        phases: list[str] = []
        assert judges.judge(table, None, witnesses, phases.append, grows=True).kind == "answer", table.name
        assert phases == ["us", "us: changes", "others"]
    readings = [witnesses.rows(table, None) for table in tables]
    # Each of them has unsupported features, such as void columns.
    assert sum(1 for answers in readings if all(answers)) >= len(tables) * 9 // 10


def test_corrupted_tables_give_rows_or_an_error_of_the_library(tables: list[Path]) -> None:
    tally = runner.run(SEED, range(INPUTS), tables)
    assert not tally.findings, "\n".join(map(str, tally.findings))
    assert tally.kinds.total() == INPUTS
    # Some corrupted tables must still be readable, otherwise there would be nothing to compare.
    assert tally.kinds["answer"] > INPUTS // 10
    assert tally.kinds["refusal"] > INPUTS // 10


def test_equal_numbers_give_equal_inputs(tables: list[Path]) -> None:
    for number in range(50):
        assert worker.choose(SEED, number, tables) == worker.choose(SEED, number, tables)
    assert len({worker.choose(SEED, number, tables).said for number in range(50)}) > 45


def test_a_corrupted_copy_is_restored(tables: list[Path], tmp_path: Path) -> None:
    corrupted = 0
    for number in range(60):
        case = worker.choose(SEED, number, tables)
        if case.table is None or not case.changed:
            continue
        root = worker.corrupt(case, tmp_path)
        corrupted += _contents(root) != _contents(case.table)
        worker.restore(case, tmp_path)
        assert _contents(root) == _contents(case.table)
    assert corrupted > 20


def test_every_kind_of_object_is_corrupted(tables: list[Path]) -> None:
    rng = random.Random(SEED)
    ends = set()
    for _ in range(800):
        table = rng.choice(tables)
        files = {str(f.relative_to(table)): f.read_bytes() for f in sorted(table.rglob("*")) if f.is_file()}
        _, changed = mutate(rng, files)
        ends |= {end for path in changed for end in _ENDS if path.endswith(end)}
    assert ends == set(_ENDS)


_ENDS = (
    "0.json",
    "checkpoint.parquet",
    "11.json",
    "compacted.json",
    "_last_checkpoint",
    ".bin",
    "-c000.snappy.parquet",
)


class _Lying:
    """Other readers that agree on another answer."""

    def rows(self, root: Path, version: int | None) -> list[list[judges.Answer]]:
        return [[judges.Answer(("id",), 1, [(7,)])]] * 2

    def matching(self, root: Path, sql: str) -> list[list[judges.Answer]]:
        return self.rows(root, None)


def test_an_answer_that_differs_from_other_readers_is_a_finding(tables: list[Path]) -> None:
    verdict = judges.judge(tables[0], None, _Lying(), lambda _: None, grows=False)  # type: ignore[arg-type]
    assert verdict.kind == "contradicted"


def test_a_difference_by_a_skipped_checkpoint_is_not_a_finding(tables: list[Path]) -> None:
    # Some readers read a line with two actions as two lines.
    liar = _Lying()
    assert judges.judge(tables[0], None, liar, lambda _: None, grows=False, sound=tables[0]).kind == "answer"  # type: ignore[arg-type]
    other = judges.judge(tables[0], None, liar, lambda _: None, grows=False, sound=tables[1])  # type: ignore[arg-type]
    assert other.kind == "contradicted"


def test_a_difference_by_a_refused_checkpoint_and_a_wrong_commit_is_not_a_finding(tmp_path: Path) -> None:
    root = tmp_path / "t"
    for number in range(3):
        write_deltalake(root, pa.table({"id": [number]}), mode="append")
    DeltaTable(root).create_checkpoint()
    log = root / "_delta_log"
    commit, checkpoint = log / f"{1:020d}.json", log / f"{2:020d}.checkpoint.parquet"
    commit.write_text("\n".join(line for line in commit.read_text().splitlines() if '"add"' not in line) + "\n")
    actions = pq.read_table(checkpoint)
    actions = actions.drop_columns(["txn"]) if "txn" in actions.column_names else actions
    pq.write_table(actions.append_column("txn", pa.nulls(len(actions), pa.int64())), checkpoint)
    for crc in log.glob("*.crc"):
        crc.unlink()
    CACHE.clear()
    witnesses = judges.Witnesses(duckdb_delta())
    assert judges.judge(root, None, witnesses, lambda _: None, grows=False).kind == "contradicted"
    assert judges.judge(root, None, witnesses, lambda _: None, grows=False, disagrees=True).kind == "answer"
    assert judges.judge(root, None, _Lying(), lambda _: None, grows=False, disagrees=True).kind == "contradicted"  # type: ignore[arg-type]


def test_predicates_with_dialect_differences_are_not_compared(tables: list[Path]) -> None:
    def kind(sql: str) -> str:
        return judges.judge_predicate(tables[0], sql, _Lying(), lambda _: None).kind  # type: ignore[arg-type]

    assert kind("text = 'a\\b'") == "answer"
    assert kind("text = 'ab'") == "contradicted"


def test_a_checksum_does_not_contradict_the_log(tables: list[Path], tmp_path: Path) -> None:
    root = tmp_path / "t"
    shutil.copytree(Path("tests/data/delta_spark/tables/in_commit_timestamps"), root)
    first = root / "_delta_log" / f"{0:020d}.json"
    first.write_text(first.read_text().replace(r"\"name\":\"id\"", r"\"name\":\"other\""))
    before = _contents(root)
    witnesses = judges.Witnesses(duckdb_delta())
    assert judges._compared(root, judges.ask_us(root, None, grows=True), witnesses.rows(root, None)).kind != "answer"
    assert judges.judge(root, None, witnesses, lambda _: None, grows=True).kind == "answer"
    assert _contents(root) == before
    assert judges.judge(root, None, _Lying(), lambda _: None, grows=True).kind == "contradicted"  # type: ignore[arg-type]


def test_readers_without_the_julian_calendar_are_not_compared() -> None:
    table = Path("tests/data/delta_spark/tables/legacy_calendar")
    right, wrong = datetime(900, 1, 1, tzinfo=UTC), datetime(900, 1, 5, tzinfo=UTC)
    our_answer, their_answer = (judges.Answer(("id", "ts"), 1, [(3, ts)]) for ts in (right, wrong))
    assert judges._compared(table, our_answer, [[their_answer], [their_answer]]).kind == "answer"
    other = judges.Answer(("id", "ts"), 1, [(4, wrong)])
    assert judges._compared(table, our_answer, [[other], [other]]).kind == "contradicted"
    assert (
        judges._compared(
            Path("tests/data/delta_spark/tables/primitives"), our_answer, [[their_answer], [their_answer]]
        ).kind
        != "answer"
    )


@pytest.mark.parametrize("error", [KeyError("x"), RecursionError(), MemoryError(), pa.ArrowInvalid("x"), OSError("x")])
def test_an_error_of_another_class_is_a_finding(
    tables: list[Path], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(judges, "ask_us", fail)
    witnesses = judges.Witnesses(duckdb_delta())
    assert judges.judge(tables[0], None, witnesses, lambda _: None, grows=False).kind == "bare"
    monkeypatch.setattr(judges, "ask_us_about", fail)
    assert judges.judge_predicate(tables[0], "id = 1", witnesses, lambda _: None).kind == "bare"


def test_a_refusal_with_a_long_hint_is_a_finding(tables: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    hint = ["no"]

    def refuse(*_: object, **__: object) -> None:
        raise LogCorruptedError("no", hint=hint[0])

    monkeypatch.setattr(judges, "ask_us", refuse)
    assert judges.judge(tables[0], None, None, lambda _: None, grows=False).kind == "refusal"
    hint[0] = "no" * 10_000
    assert judges.judge(tables[0], None, None, lambda _: None, grows=False).kind == "bare"


@pytest.mark.parametrize(("name", "kind"), [("_hang", "hung"), ("_die", "crashed"), ("_swell", "memory")])
def test_a_worker_that_hangs_or_crashes_fails_one_input(
    tables: list[Path], monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    monkeypatch.setattr(runner, "work", globals()[name])
    tally = runner.run(SEED, range(2), tables, time_limit=0.5)
    assert [finding.verdict.kind for finding in tally.findings] == [kind, kind]
    assert [finding.number for finding in tally.findings] == [0, 1]


def test_a_worker_that_is_killed_once_fails_no_input(tables: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "work", _die_once)
    tally = runner.run(SEED, range(2), tables)
    assert (tally.findings, sum(tally.kinds.values())) == ([], 2)


def _die_once(connection: object, seed: int, corpus: list[Path], scratch: Path) -> None:
    mark = scratch.parent / "killed"  # beside the folders of the other workers
    if mark.exists():
        worker.work(connection, seed, corpus, scratch)  # type: ignore[arg-type]
    mark.touch()


def _hang(connection: object, *_: object) -> None:
    connection.recv()  # type: ignore[attr-defined]
    connection.send(("phase", "us"))  # type: ignore[attr-defined]
    time.sleep(60)


def _die(connection: object, *_: object) -> None:
    connection.recv()  # type: ignore[attr-defined]


def _swell(connection: object, seed: int, corpus: list[Path], scratch: Path) -> None:
    worker.MEMORY_LIMIT = 2**20

    def judged(*_: object) -> judges.Verdict:
        assert sum(bytearray(64 * 2**20)) == 0
        return judges.Verdict("answer")

    worker._judged = judged  # type: ignore[assignment]
    worker.work(connection, seed, corpus, scratch)  # type: ignore[arg-type]


def _contents(root: Path) -> dict[str, bytes]:
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}
