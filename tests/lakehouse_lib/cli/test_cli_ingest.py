"""``lakehouse ingest``: it infers, plans and loads, and delta-rs reads what it has loaded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from lakehouse_lib.cli.main import main
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.tasks import file_task
from lakehouse_lib.progress import Progress
from tests.spark_jobs.loading import PRICE_RULE, Shop


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    shop = Shop(tmp_path)
    shop.land("a.csv", "1,1.50,x", "2,-1,y", "oops,1,z")
    shop.land("b.csv", "3,1,x")
    return shop


def words(shop: Shop, *more: str) -> list[str]:
    options = shop.command_line()[4:]  # without --table and --landing
    return ["ingest", str(shop.landing), str(shop.table), *options, *more]


def run(words: list[str], capsys: pytest.CaptureFixture[str], code: int = 0) -> dict[str, Any]:
    assert main([*words, "--json"]) == code
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    result: dict[str, Any] = table["result"]
    return result


def test_a_load_is_planned_run_and_then_there_is_nothing_to_do(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    line = words(shop, f"--suite={shop.suite(PRICE_RULE)}", "--exit-code")
    planned = run(line, capsys, 3)
    assert (planned["files_to_load"], planned["batches"]) == (["a.csv", "b.csv"], 2)
    assert not shop.table.exists()
    done = run([*line, "--run"], capsys)
    assert (done["files_loaded"], done["rows_loaded"], done["rows_quarantined"]) == (2, 2, 2)
    assert shop.ids() == [1, 3]
    assert DeltaTable(str(shop.table)).transaction_version("erp") == 1
    assert run(line, capsys)["files_to_load"] == []
    assert run([*line, "--run"], capsys)["files_loaded"] == 0
    assert main([*line, "--run"]) == 0
    assert capsys.readouterr().out == "No file was loaded.\n"


def test_a_refused_file_is_an_error_after_the_others_are_loaded(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.land("c.csv", "1", header="ident")
    assert main(words(shop, "--run")) == 1
    printed = capsys.readouterr()
    assert "refused: c.csv does not fit the schema" in printed.out
    assert printed.err.startswith("[DELTA_SOURCE_REFUSED]")
    assert shop.ids() == [1, 2, 3]
    assert main(words(shop, "--run")) == 0
    assert "refused earlier: c.csv does not fit the schema" in capsys.readouterr().out
    assert main(words(shop, "--run", "--refused=fail")) == 1
    assert capsys.readouterr().err.startswith("[DELTA_SOURCE_REFUSED]")
    shop.land("d.csv", "1", header="ident")
    assert main(words(shop, "--run", "--refused=report")) == 0


def test_missing_arguments_and_bad_files_are_named(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest", str(shop.landing), "--source=erp"]) == 2
    assert "TABLE, --format, --schema, --quarantine are missing" in capsys.readouterr().err
    shop.suite().write_text("{")
    assert main(words(shop, f"--suite={shop.folder / 'suite.json'}")) == 1
    assert "is not valid JSON" in capsys.readouterr().err


def test_inferred_schema_and_suite_load_the_files(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ingest", "--infer", str(shop.landing), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {field["name"]: field["type"] for field in document["schema"]["fields"]} == {
        "id": "string",
        "price": "decimal(18,2)",
        "note": "string",
    }
    files = {name: shop.folder / f"inferred.{name}.json" for name in ("schema", "suite")}
    for name, path in files.items():
        path.write_text(json.dumps(document[name]))
    done = run(words(shop, *(f"--{name}={path}" for name, path in files.items()), "--run"), capsys)
    assert (done["rows_loaded"], done["rows_quarantined"]) == (4, 0)
    assert main(["ingest", "--infer", str(shop.landing)]) == 0
    assert capsys.readouterr().out.startswith("Read 4 rows of 2 files as csv.\n")


def test_a_load_reports_files_bytes_and_rows(shop: Shop) -> None:
    calls: list[Progress] = []
    Load(shop.source(suite={"name": "s", "expectations": [PRICE_RULE]})).run(on_progress=calls.append)
    size = sum(file.stat().st_size for file in shop.landing.iterdir())
    assert (calls[0].items, calls[0].done, calls[0].total, calls[0].bytes_total) == ("files", 0, 2, size)
    assert sorted({call.rows or 0 for call in calls}) == [0, 3, 4]
    assert (calls[-1].done, calls[-1].bytes_done) == (2, size)
    assert calls[-1].amounts.startswith("2 of 2 files, 0 of 0 MiB, 4 rows, ")
    assert calls[-1].amounts.endswith(" MiB/s")


@pytest.mark.parametrize(
    "rule",
    [
        {"type": "expect_column_values_to_be_unique", "kwargs": {"column": "id"}, "meta": {"unique_in": "table"}},
        {**PRICE_RULE, "kwargs": {"column": "price", "min_value": 500, "mostly": 0.1}},
    ],
    ids=["unique in the table", "mostly"],
)
def test_a_load_tells_all_rows_and_the_bytes_of_a_file_that_it_is_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: dict[str, Any]
) -> None:
    monkeypatch.setattr(file_task, "_SMALL_FILE", 0)
    monkeypatch.setattr("lakehouse_lib.ingestion.sources.compression._BUFFER", 1 << 10)
    monkeypatch.setattr("lakehouse_lib.ingestion.sources.records.BLOCK_SIZE", 1 << 10)
    shop, calls = Shop(tmp_path), list[Progress]()
    rule = {**rule, "meta": {"rule_id": "r", **rule.get("meta", {})}}
    size = shop.land("a.csv", *(f"{number},{number},x" for number in range(1000))).stat().st_size
    Load(shop.source(suite={"name": "s", "expectations": [rule]})).run(on_progress=calls.append)
    assert (calls[-1].rows, calls[-1].done, calls[-1].bytes_done) == (1000, 1, size)
    unfinished = [call for call in calls if not call.done]
    assert any(0 < call.bytes_done < size and call.seconds_left is not None for call in unfinished)
    assert any(0 < (call.rows or 0) < 1000 for call in unfinished)
