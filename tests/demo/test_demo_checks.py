"""Each check of the demo passes for a right lakehouse, and fails with the difference for a wrong one.

delta-rs writes the lakehouse, and its quarantine comes from the injector's list, so only the checks are tested.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from demo import checks, data, faults
from demo.faults import Faults, SpoiledRow
from demo.home import Home
from demo.lakehouse import COLUMNS, KEYS, quarantine_of
from demo.person import Person, choose, rows_on_disk
from demo.pipeline import Release

TYPES = {
    "long": pa.int64(),
    "integer": pa.int32(),
    "string": pa.string(),
    "date": pa.date32(),
    "decimal(15,2)": pa.decimal128(15, 2),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, Faults, Person]:
    home = Home(tmp_path_factory.mktemp("home"))
    data.generate(home.raw, scale=0.01)
    data.cut(home.raw, home.landing)
    injected = faults.inject(home.landing)
    for table, columns in COLUMNS.items():
        options = pyarrow.csv.ConvertOptions(column_types={name: TYPES[kind] for name, kind in columns.items()})
        rows = pyarrow.csv.read_csv(home.raw / f"{table}.csv", convert_options=options)
        missing = set(injected.missing_keys(table))
        keys = zip(*(rows.column(name).to_pylist() for name in KEYS[table]), strict=True)
        rows = rows.filter(pa.array([key not in missing for key in keys]))
        half = rows.num_rows // 2
        for part in (rows.slice(0, half), rows.slice(half)):
            deltalake.write_deltalake(str(home.tables / table), part, mode="append")
        write_quarantine(home, table, [row for row in injected.rows if row.table == table])
    return home, injected, choose(home.raw, injected)


@pytest.fixture
def home(made: tuple[Home, Faults, Person], tmp_path: Path) -> Iterator[Home]:
    """A copy that a test may change."""
    shutil.copytree(made[0].root, tmp_path / "home")
    yield Home(tmp_path / "home")
    shutil.rmtree(tmp_path / "home")


@pytest.fixture
def injected(made: tuple[Home, Faults, Person]) -> Faults:
    return made[1]


@pytest.fixture
def person(made: tuple[Home, Faults, Person]) -> Person:
    return made[2]


def write_quarantine(home: Home, table: str, rows: list[SpoiledRow]) -> None:
    """Write the quarantine as the load does: raw lines that cannot be parsed, and texts of typed values that break a
    rule."""
    columns: dict[str, list[object]] = {name: [] for name in COLUMNS[table]}
    for row in rows:
        for position, (name, kind) in enumerate(COLUMNS[table].items()):
            value = None if row.column is None else row.values[position]
            if row.rule is not None and kind == "decimal(15,2)":
                value = str(pa.scalar(value).cast(pa.decimal128(15, 2)))
            columns[name].append(value)
    columns |= {
        "_file": [row.file for row in rows],
        "_column": [row.column for row in rows],
        "_reason": [row.reason for row in rows],
        "_rule": [row.rule for row in rows],
        "_raw": [",".join(row.values) if row.column is None else None for row in rows],
    }
    texts = {name: pa.array(values, pa.string()) for name, values in columns.items()}
    deltalake.write_deltalake(
        str(home.tables / quarantine_of(table)),
        pa.table({**texts, "_line": pa.array([row.line for row in rows], pa.int64())}),
        mode="overwrite",
    )


def forget(home: Home, person: Person) -> None:
    orders = ", ".join(map(str, person.orders))
    deltalake.DeltaTable(str(home.tables / "customer")).delete(f"c_custkey = {person.customer}")
    deltalake.DeltaTable(str(home.tables / "orders")).delete(f"o_orderkey in ({orders})")
    deltalake.DeltaTable(str(home.tables / "lineitem")).delete(f"l_orderkey in ({orders})")


@pytest.mark.slow
def test_queries_agree_only_after_the_erasure(home: Home, injected: Faults, person: Person) -> None:
    assert not checks.queries_agree(home, injected, person).holds
    forget(home, person)
    assert checks.queries_agree(home, injected, person).problems == ()


@pytest.mark.slow
def test_queries_detect_a_difference_of_a_cent(home: Home, injected: Faults, person: Person) -> None:
    forget(home, person)
    table = deltalake.DeltaTable(str(home.tables / "lineitem"))
    where = "l_shipdate < date '1998-01-01'"
    key = table.to_pyarrow_table(columns=["l_orderkey", "l_linenumber"]).slice(0, 1).to_pylist()[0]
    table.update(
        {"l_extendedprice": "l_extendedprice + cast('0.01' as decimal(15,2))"},
        predicate=f"l_orderkey = {key['l_orderkey']} and l_linenumber = {key['l_linenumber']} and {where}",
    )
    (problem,) = checks.queries_agree(home, injected, person).problems
    assert problem.startswith("TPC-H Q1")


@pytest.mark.slow
def test_quarantine_is_exact(home: Home, injected: Faults) -> None:
    assert checks.quarantine_is_exact(home, injected).problems == ()


@pytest.mark.parametrize(
    "change", [{"line": 1}, {"reason": "another"}, {"file": "lineitem-99.csv"}, {"column": "l_tax"}, {"rule": "other"}]
)
def test_quarantine_with_another_place_or_reason_is_found(
    home: Home, injected: Faults, change: dict[str, object]
) -> None:
    rows = [row for row in injected.rows if row.table == "lineitem"]
    spoiled = next(index for index, row in enumerate(rows) if row.rule is not None)
    rows[spoiled] = replace(rows[spoiled], **change)  # type: ignore[arg-type]
    write_quarantine(home, "lineitem", rows)

    problems = checks.quarantine_is_exact(home, injected).problems

    assert [problem.partition(":")[2].split()[0] for problem in problems] == ["missing", "in"]


def test_a_row_missing_from_quarantine_and_one_too_many_are_found(home: Home, injected: Faults) -> None:
    rows = [row for row in injected.rows if row.table == "lineitem"]
    write_quarantine(home, "lineitem", rows[1:])
    assert len(checks.quarantine_is_exact(home, injected).problems) == 1
    write_quarantine(home, "lineitem", [*rows, rows[0]])
    assert len(checks.quarantine_is_exact(home, injected).problems) == 1
    shutil.rmtree(home.tables / quarantine_of("lineitem"))
    assert len(checks.quarantine_is_exact(home, injected).problems) == len(rows)


@pytest.fixture
def selective(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that equally few rows have."""
    monkeypatch.setattr(checks, "SELECTIVE", {"lineitem": {"l_partkey": "l_partkey = 1007"}})


@pytest.mark.usefixtures("selective")
def test_a_table_without_z_order_does_not_skip_enough(home: Home) -> None:
    problems = checks.skipping_is_real(home).problems
    assert problems
    assert all("more than a third" in problem for problem in problems)


@pytest.mark.usefixtures("selective")
def test_files_whose_footers_say_otherwise_are_found(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "MOST_FILES_READ", 1)
    assert checks.skipping_is_real(home).holds
    table = deltalake.DeltaTable(str(home.tables / "lineitem"))
    file = Path(table.file_uris()[0])
    rows = pq.ParquetFile(file).read()
    elsewhere = pc.add(rows.column("l_partkey"), 10_000_000)
    pq.write_table(rows.set_column(rows.column_names.index("l_partkey"), "l_partkey", elsewhere), file)

    (problem,) = checks.skipping_is_real(home).problems

    assert "by the footers" in problem
    assert "l_partkey" in problem


@pytest.mark.slow
def test_readers_agree(home: Home) -> None:
    assert checks.readers_agree(home, older=1).problems == ()


@pytest.mark.slow
def test_a_loaded_table_with_too_few_versions_is_found(home: Home) -> None:
    problems = checks.readers_agree(home, older=2).problems
    assert [problem.split(":")[0] for problem in problems] == ["customer", "lineitem", "orders"]
    assert all("expected more than 2" in problem for problem in problems)


def test_readers_that_see_other_rows_are_found(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = checks.readers.READERS["we"]
    monkeypatch.setitem(checks.readers.READERS, "we", lambda connection, path, version: reader(connection, path, 0))
    problems = checks.readers_agree(home).problems
    assert [problem.split()[0] for problem in problems] == ["customer", "lineitem", "orders"]


def test_vacuum_that_left_or_took_a_file_is_found(home: Home) -> None:
    assert checks.vacuum_was_exact(home).problems == ()
    (home.tables / "orders" / "left.parquet").write_bytes(b"")
    (home.tables / "orders" / "_ingest").mkdir()
    (home.tables / "orders" / "_ingest" / "0.json").write_text("{}")
    Path(deltalake.DeltaTable(str(home.tables / "customer")).file_uris()[0]).unlink()
    problems = checks.vacuum_was_exact(home).problems
    assert [problem.split(":")[0] for problem in problems] == ["orders", "customer"]


@pytest.mark.slow
def test_missing_checkpoints_are_reported(home: Home) -> None:
    assert checks.checkpoints_suffice(home).problems == ("no table has a checkpoint",)
    for table in COLUMNS:
        deltalake.DeltaTable(str(home.tables / table)).create_checkpoint()
    assert checks.checkpoints_suffice(home).problems == ()


def test_rows_of_the_customer_are_counted_in_every_file_listed_or_not(home: Home, person: Person) -> None:
    before = rows_on_disk(home.tables, person)
    assert before["customer"][0] == 1
    assert before["orders"][0] == len(person.orders)
    assert before["lineitem_quarantine"][0] > 0
    forget(home, person)
    after = rows_on_disk(home.tables, person)
    assert after == before, "delta-rs has only unlisted the old files, they are still there"


def test_an_erasure_that_left_rows_or_found_none_is_found() -> None:
    assert checks.erasure_is_complete({"orders": (3, 0)}).holds
    assert not checks.erasure_is_complete({"orders": (3, 0), "lineitem": (9, 1)}).holds
    assert not checks.erasure_is_complete({"orders": (0, 0)}).holds


def test_an_erasure_without_its_record_or_with_the_keys_or_the_answer_of_one_person_is_found(tmp_path: Path) -> None:
    home = Home(tmp_path)
    folder = home.ledger / "7f3a"
    folder.mkdir(parents=True)
    (problem,) = checks.record_stands(home, "7f3a", own_answer_refused=True).problems
    assert "requester None and approver None" in problem

    (folder / "record.json").write_text('{"document": {"requester": "requester", "approver": {"id": "officer"}}}')
    assert checks.record_stands(home, "7f3a", own_answer_refused=True).holds
    assert not checks.record_stands(home, "7f3a", own_answer_refused=False).holds
    (folder / "keys.json").touch()
    (problem,) = checks.record_stands(home, "7f3a", own_answer_refused=True).problems
    assert "keys are still in the ledger" in problem
    (folder / "keys.json").unlink()

    (folder / "record.json").write_text('{"document": {"requester": "officer", "approver": {"id": "officer"}}}')
    assert not checks.record_stands(home, "7f3a", own_answer_refused=True).holds


def test_a_load_that_changed_something_is_found() -> None:
    assert checks.nothing_changed({"orders": 3}, {"orders": 3}, 2, 2).holds
    assert not checks.nothing_changed({"orders": 3}, {"orders": 4}, 2, 2).holds
    assert not checks.nothing_changed({"orders": 3}, {"orders": 3}, 2, 3).holds


def release(run_id: str, first: int, last: int, run_type: str = "asset_triggered") -> Release:
    return Release(run_id, run_type, None, 1.0, "lineitem", first, last)


def test_downstream_runs_that_overlap_or_were_started_by_hand_are_found() -> None:
    assert checks.one_run_a_range([release("a", 0, 5), release("b", 6, 8)]).holds
    assert not checks.one_run_a_range([release("a", 0, 5), release("b", 5, 8)]).holds
    assert not checks.one_run_a_range([release("a", 0, 5), release("b", 6, 8, "manual")]).holds
    assert not checks.one_run_a_range([release("a", 0, 5)]).holds
    assert not checks.one_run_a_range([release("a", 0, 5), release("b", 6, 8), release("c", 9, 9)]).holds
