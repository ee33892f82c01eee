"""Deletes from several tables in one application: in the given order, with a report of the finished ones."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_lib.errors import DeltaProtocolError, InvalidArgumentError, LedgerError
from spark_jobs.erase import arguments, prepare
from spark_jobs.job import FailedAfterWork
from tests.table_builder import longs

REQUEST = "0123456789abcdef0123"
KEY = "C-90218-ZYXWVUT-4711"


def job(file: Path, deletes: list[dict[str, str]]) -> Any:
    file.write_text(json.dumps(deletes))
    return prepare(arguments().parse_args(["--deletes-file", str(file)]))


def delete(table: str | Path, predicate: str = "a = 2", request: str = REQUEST) -> dict[str, str]:
    return {"table": str(table), "predicate": predicate, "request": request}


@pytest.mark.slow
def test_an_erasure_stops_at_the_first_failed_delete(spark: Any, tmp_path: Path) -> None:
    tables = [str(tmp_path / name) for name in ("first", "kept", "last")]
    for table in tables:
        properties = {"delta.appendOnly": "true"} if table.endswith("kept") else {}
        write_deltalake(table, pa.table({"a": [1, 2, 3]}), configuration=properties)
    run = job(tmp_path / "deletes.json", [delete(table) for table in tables])
    with pytest.raises(FailedAfterWork) as failure:
        run(spark)
    assert isinstance(failure.value.error, DeltaProtocolError)
    assert failure.value.error.code == "DELTA_APPEND_ONLY"
    (done,) = failure.value.result["tables"]
    assert (done["table"], done["version"], done["metrics"]["numDeletedRows"]) == (tables[0], 1, 1)
    assert [DeltaTable(table).version() for table in tables] == [1, 0, 0]

    # Run it again when the table may lose rows: finished deletes change nothing.
    run = job(tmp_path / "deletes.json", [delete(table) for table in (tables[0], tables[2])])
    assert [entry["version"] for entry in run(spark)["tables"]] == [None, 1]
    assert DeltaTable(tables[2]).to_pyarrow_table()["a"].to_pylist() == [1, 3]


def test_the_history_names_the_request_and_not_the_person(spark: Any, tmp_path: Path) -> None:
    table = tmp_path / "t"
    write_deltalake(table, pa.table({"c": ["A", KEY, "Z"]}))
    result = job(tmp_path / "deletes.json", [delete(table, f"c = '{KEY}'")])(spark)
    assert KEY not in json.dumps(result)
    assert KEY not in (table / "_delta_log" / f"{1:020}.json").read_text()
    (commit,) = DeltaTable(table).history(1)
    assert json.loads(commit["operationParameters"]["predicate"]) == [f"erasure {REQUEST}"]


def test_no_error_shows_a_value_of_the_predicate(spark: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # The path of the missing file contains the key, and Arrow's error quotes a number that does not fit 32 bits.
    write_deltalake(tmp_path / "parted", pa.table({"c": [KEY], "n": [4711]}), partition_by=["c"])
    next((tmp_path / "parted").glob("c=*/*")).unlink()
    write_deltalake(tmp_path / "wide", longs(n=[1, 4711471147114711]))
    log = tmp_path / "wide" / "_delta_log" / f"{0:020}.json"
    log.write_text(log.read_text().replace('\\"long\\"', '\\"integer\\"'))
    for table, predicate, value in (
        ("parted", f"c = '{KEY}' AND n = 4711", KEY),
        ("wide", "n IN (4711471147114711, 5)", "4711471147114711"),
        ("wide", f"n = '{KEY}'", KEY),
        ("wide", f"n = '{KEY}", KEY),
    ):
        with pytest.raises(FailedAfterWork) as failure:
            job(tmp_path / "deletes.json", [delete(tmp_path / table, predicate)])(spark)
        assert value not in f"{failure.value} {failure.value.error}"
    assert KEY not in "".join(capfd.readouterr())


def test_no_error_shows_an_encoded_value_of_the_predicate(spark: Any, tmp_path: Path) -> None:
    table = tmp_path / "parted"
    write_deltalake(table, pa.table({"c": ["Ann Müller"], "n": [4711]}), partition_by=["c"])
    next(table.glob("c=*/*")).unlink()
    with pytest.raises(FailedAfterWork) as failure:
        job(tmp_path / "deletes.json", [delete(table, "c = 'Ann Müller' AND n = 4711")])(spark)
    assert "c=*/part-" in str(failure.value.error)
    assert "ller" not in f"{failure.value} {failure.value.error}"


@pytest.mark.parametrize(
    "deletes",
    [{}, ["x"], [{"table": "t", "predicate": "a = 2"}], [{**delete("t"), "more": "1"}], [delete("t", 2)]],  # type: ignore[arg-type]
)
def test_a_file_that_does_not_list_deletes_is_refused(tmp_path: Path, deletes: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="is not a valid list of tables, predicates and requests"):
        job(tmp_path / "deletes.json", deletes)


def test_a_request_is_an_id_of_the_ledger(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="the request id 'customer 7' is not valid"):
        job(tmp_path / "deletes.json", [delete("t", request="customer 7")])
