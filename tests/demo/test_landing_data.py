"""The demo's data: no row is lost when it is divided into files, and the injector's list matches the files exactly."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from demo import data, faults
from demo.faults import Faults
from demo.lakehouse import COLUMNS
from demo.person import choose


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    data.generate(folder, scale=0.01)
    return folder


@pytest.fixture
def landing(raw: Path, tmp_path: Path) -> Path:
    data.cut(raw, tmp_path / "landing")
    return tmp_path / "landing"


def lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines(keepends=True)


@pytest.mark.slow
def test_cut_keeps_every_row_in_order_and_gives_each_file_the_header(raw: Path, landing: Path) -> None:
    for table, count in data.LANDING_FILES.items():
        header, *rows = lines(raw / f"{table}.csv")
        parts = [lines(file) for file in sorted((landing / table).iterdir())]
        assert len(parts) == count
        assert all(part[0] == header and len(part) > 1 for part in parts)
        assert [row for part in parts for row in part[1:]] == rows
        assert header.decode().strip().split(",") == list(COLUMNS[table])


@pytest.mark.slow
def test_the_same_seed_spoils_the_same_rows_and_another_seed_others(raw: Path, landing: Path, tmp_path: Path) -> None:
    shutil.copytree(landing, tmp_path / "second")
    shutil.copytree(landing, tmp_path / "third")

    first = faults.inject(landing)

    assert faults.inject(tmp_path / "second") == first
    assert faults.inject(tmp_path / "third", seed=faults.SEED + 1) != first
    for file in landing.rglob("*.csv"):
        assert file.read_bytes() == (tmp_path / "second" / file.relative_to(landing)).read_bytes()


@pytest.mark.slow
def test_the_list_has_exactly_the_faults_in_the_files(raw: Path, landing: Path) -> None:
    clean = {file: lines(file) for file in landing.rglob("*.csv")}

    injected = faults.inject(landing)

    spoiled = {landing / row.table / row.file: set() for row in injected.rows}
    for row in injected.rows:
        file = landing / row.table / row.file
        assert tuple(faults.parse(lines(file)[row.line - 1])) == row.values
        original = faults.parse(clean[file][row.line - 1])
        assert faults.key_of(row.table, original) == row.key
        assert tuple(original) != row.values
        if row.column is not None and row.rule is None:
            position = list(COLUMNS[row.table]).index(row.column)
            assert [*original[:position], row.values[position], *original[position + 1 :]] == list(row.values)
        spoiled[file].add(row.line - 1)
    (refused,) = injected.files
    for file, before in clean.items():
        after = lines(file)
        differing = {number for number, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]}
        expected = {0} if file == landing / refused.table / refused.file else spoiled.get(file, set())
        assert differing == expected


def test_every_kind_of_fault_occurs(landing: Path) -> None:
    injected = faults.inject(landing)

    assert len(injected.files) == 1
    for table in COLUMNS:
        assert any(row.rule is not None for row in injected.rows if row.table == table)
    assert any(row.column is None for row in injected.rows)
    assert any(row.column is not None and row.rule is None for row in injected.rows)
    assert len({(row.table, row.key) for row in injected.rows}) == len(injected.rows)


@pytest.mark.slow
def test_missing_keys_are_those_of_spoiled_rows_and_of_the_refused_file(raw: Path, landing: Path) -> None:
    (first_part, *_) = sorted((landing / "orders").iterdir())
    per_file = len(lines(first_part)) - 1

    injected = faults.inject(landing)

    rows = [row for row in injected.rows if row.table == "orders"]
    missing = injected.missing_keys("orders")
    assert len(missing) == len(set(missing))
    assert abs(len(missing) - len(rows) - per_file) <= 1


@pytest.mark.slow
def test_the_erased_customer_has_rows_everywhere_and_every_order_can_be_found(raw: Path, landing: Path) -> None:
    injected = faults.inject(landing)

    person = choose(raw, injected)

    quarantined = {row.key[0] for row in injected.rows if row.table == "lineitem" and row.column is not None}
    assert quarantined & set(person.orders)
    assert not set(person.orders) & {key[0] for key in injected.missing_keys("orders")}
    header, *rows = (faults.parse(line) for line in lines(raw / "orders.csv"))
    customer, order = header.index("o_custkey"), header.index("o_orderkey")
    assert person.orders == tuple(sorted(int(row[order]) for row in rows if int(row[customer]) == person.customer))


def test_no_customer_to_erase_is_an_error(raw: Path) -> None:
    with pytest.raises(ValueError, match="seed"):
        choose(raw, Faults((), ()))
