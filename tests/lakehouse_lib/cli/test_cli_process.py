"""The command ``lakehouse`` as a process: output, exit codes, secrets, imports."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable
from lakehouse_lib.cli import main as entry
from lakehouse_lib.cli.main import main
from lakehouse_lib.cli.terminal import printable, size_text

GOLDEN = Path(__file__).parents[2] / "data/golden"
SECRET = "wJalrXUtnFEMIK7MDENG"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of delta-rs that has small files, one that is partitioned, and one of delta-spark."""
    root = tmp_path_factory.mktemp("lake")
    for number in range(12):
        deltalake.write_deltalake(root / "orders", pa.table({"id": [number, number + 1]}), mode="append")
    deltalake.write_deltalake(root / "events", pa.table({"day": ["a", "b"], "n": [1, 2]}), partition_by=["day"])
    shutil.copytree(GOLDEN / "basic-with-inserts-deletes-checkpoint/delta", root / "spark")
    return root


def process(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "lakehouse_lib.cli", *map(str, words)],
        env={name: value for name, value in os.environ.items() if name != "COLUMNS"} | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


class Invoke:
    """Runs the command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: str | Path) -> tuple[int, str, str]:
        code = main([str(word) for word in words])
        printed = self.capsys.readouterr()
        return code, printed.out, printed.err

    def document(self, *words: str | Path) -> Any:
        code, out, err = self(*words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)


@pytest.fixture
def invoke(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Invoke:
    monkeypatch.delenv("COLUMNS", raising=False)
    return Invoke(capsys)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_error_fails_the_command_even_if_the_reader_of_its_output_has_ended(lake: Path, options: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = ["health", str(lake / "orders"), str(lake / "missing"), *options]
    done = subprocess.run(
        [sys.executable, "-m", "lakehouse_lib.cli", *words],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr.splitlines()[0].split()[0]) == (1, "[DELTA_TABLE_NOT_FOUND]")


@pytest.mark.parametrize("command", ["health", "detail", "history", "plan", "repair", "checkpoint"])
def test_commands_read_tables_of_other_writers(lake: Path, command: str, invoke: Invoke) -> None:
    names = ["orders", "events", "spark"]
    values = invoke.document(command, *(lake / name for name in names))
    assert values["command"] == command
    if command != "plan":
        assert [entry["location"] for entry in values["tables"]] == [str(lake / name) for name in names]
    code, out, err = invoke(command, *(lake / name for name in names))
    assert (code, err) == (0, "")
    assert str(lake / "orders") in out


def test_the_process_prints_one_document(lake: Path) -> None:
    done = process("health", lake / "orders", "--json", "--exit-code")
    assert (done.returncode, done.stderr) == (3, "")
    assert json.loads(done.stdout)["tables"][0]["result"]["files"] == 12


def test_detail_and_history_are_those_of_the_library(lake: Path, invoke: Invoke) -> None:
    (entry,) = invoke.document("detail", lake / "spark")["tables"]
    expected = DeltaTable(lake / "spark").detail()
    assert {name: entry["result"][name] for name in ("id", "numFiles", "sizeInBytes")} == {
        name: expected[name] for name in ("id", "numFiles", "sizeInBytes")
    }
    (entry,) = invoke.document("history", lake / "orders", "--limit=3")["tables"]
    assert [commit["version"] for commit in entry["result"]["commits"]] == [11, 10, 9]


def test_health_lists_due_maintenance(lake: Path, invoke: Invoke) -> None:
    code, out, _ = invoke("health", lake / "orders", "--exit-code")
    assert code == 3
    assert "12 below half of 100.0 MiB; compaction would rewrite 12" in out
    assert "optimize: 12 of 12 files are small" in out
    assert re.search(r"^score +74 of 100$", out, re.MULTILINE)
    assert "-25 small_files: 12 of 12 files are below half" in out
    assert "12 commits in 7 days, 12 WRITE by delta-rs" in out
    code, out, _ = invoke("health", lake / "events", "--exit-code")
    assert code == 0
    assert out.endswith("Nothing is due.\n")


def test_health_measurements_are_recorded(lake: Path, tmp_path: Path, invoke: Invoke) -> None:
    assert invoke("health", lake / "orders", "--record")[0] == 2
    registry = tmp_path / "lakehouse.yaml"
    registry.write_text(
        f"tables: {{orders: {{uri: {lake}/orders}}, events: {{uri: {lake}/events}}}}\nrecords: records\n"
    )
    for words in (["--registry", registry], [lake / "orders", f"--records={tmp_path}/records"]):
        values = invoke.document("health", "--record", *words)
    recorded = deltalake.DeltaTable(tmp_path / "records/health").to_pyarrow_table().to_pylist()
    assert sorted(row["table"] for row in recorded) == sorted(["orders", "events", str(lake / "orders")])
    points = {row["score"] for row in recorded if row["table"].endswith("orders")}
    assert points == {values["tables"][0]["result"]["score"]["points"]}


def test_an_error_is_a_line_with_a_code_and_a_hint_and_stops_no_other_table(lake: Path, invoke: Invoke) -> None:
    code, out, err = invoke("health", lake / "none", lake / "orders")
    assert code == 1
    message, hint = err.splitlines()
    assert message.startswith("[DELTA_TABLE_NOT_FOUND] the location has no table")
    assert hint.startswith("hint: ")
    assert str(lake / "orders") in out
    code, out, _ = invoke("health", lake / "none", lake / "orders", "--json")
    assert code == 1
    missing, orders = json.loads(out)["tables"]
    assert missing["error"]["code"] == "DELTA_TABLE_NOT_FOUND"
    assert orders["result"]["files"] == 12


@pytest.mark.slow
@pytest.mark.parametrize("command", [["health"], ["plan"], ["maintain"], ["maintain", "--run"]], ids=" ".join)
def test_a_table_of_a_prefix_that_cannot_be_opened_is_a_row_with_its_code(
    tmp_path: Path, invoke: Invoke, command: list[str]
) -> None:
    for name in ("events", "orders", "visits"):
        for number in range(12):
            deltalake.write_deltalake(tmp_path / name, pa.table({"id": [number]}), mode="append")
    (tmp_path / "orders/_delta_log" / f"{11:020}.json").write_text('{"add": tor')
    code, out, err = invoke(*command, "--under", tmp_path)
    assert code == 1
    (row,) = [line for line in out.splitlines() if line.startswith(str(tmp_path / "orders"))]
    assert "DELTA_LOG_CORRUPTED" in row
    assert {"events", "visits"} <= {Path(line.split()[0]).name for line in out.splitlines() if line.startswith("/")}
    assert err.startswith("[DELTA_LOG_CORRUPTED] ")
    assert err.count("DELTA_LOG_CORRUPTED") == 1


@pytest.mark.slow
def test_a_failed_step_is_printed_once(tmp_path: Path) -> None:
    for number in range(12):
        deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [number]}), mode="append")
    next((tmp_path / "t").glob("*.parquet")).unlink()
    done = process("maintain", tmp_path / "t", "--verbs=optimize", "--run")
    assert done.returncode == 1
    (message, *rest) = done.stderr.splitlines()
    assert message.startswith("[DELTA_DATA_FILE_MISSING] optimize of")
    assert [line for line in rest if not line.startswith("hint: ")] == []
    assert "failed: DELTA_DATA_FILE_MISSING" in done.stdout


@pytest.mark.parametrize(
    "line", ["", "vacum", "vacuum", "vacuum t --dry", "optimize t --target-file-size 0", "registry"]
)
def test_a_wrong_command_line_has_exit_code_2(line: str, invoke: Invoke) -> None:
    code, out, err = invoke(*line.split())
    assert (code, out) == (2, "")
    assert err.startswith("[DELTA_INVALID_COMMAND_LINE] ")
    assert len(err.splitlines()) == 2


def test_no_secret_is_printed(lake: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    options = tmp_path / "options.json"
    options.write_text(json.dumps({"s3://bucket": {"no_such_option": SECRET, "secret_access_key": SECRET}}))
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7")
    lines: list[tuple[int, list[str | Path]]] = [
        (0, ["health", lake / "orders"]),
        (2, ["health", lake / "orders", "--storage-option", f"secret_access_key={SECRET}"]),
        (2, ["health", lake / "orders", f"--storage-options=secret_access_key={SECRET}"]),
        (1, ["detail", "s3://bucket/t", f"--storage-options-file={options}"]),
        (1, ["detail", f"s3://key:{SECRET}@bucket/t", "--json"]),
    ]
    for expected, words in lines:
        code, out, err = invoke(*words)
        assert code == expected, words
        assert SECRET not in out + err, words


def test_help_and_completion_import_nothing_heavy() -> None:
    code = (
        "import json, sys\nfrom lakehouse_lib.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print(json.dumps([*sys.modules]), file=sys.stderr)"
    )
    heavy = {"pyarrow", "pyspark", "airflow", "boto3", "numpy", "pandas", "sqlglot", "pydantic", "rich.table"}
    for words in (["--help"], ["vacuum", "--help"]):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("usage: lakehouse")
        assert not heavy & set(json.loads(done.stderr))


def test_a_command_loads_neither_pandas_nor_spark(lake: Path) -> None:
    code = (
        "import json, sys\nfrom lakehouse_lib.cli.main import main\nmain(sys.argv[1:])\n"
        "print(json.dumps([*sys.modules]), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "detail", str(lake / "orders")], capture_output=True, text=True, check=True
    )
    assert not {"pandas", "pyspark", "airflow", "boto3"} & set(json.loads(done.stderr))


def test_a_bug_is_one_line_without_a_traceback(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a\nb")

    monkeypatch.delenv("LAKEHOUSE_TRACEBACK", raising=False)
    monkeypatch.setattr(entry, "_run", fail)
    assert main(["detail", str(lake / "orders")]) == 1
    assert capsys.readouterr().err.splitlines()[0] == "[DELTA_UNEXPECTED_ERROR] RuntimeError: a"
    assert main(["detail", str(lake / "orders"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "DELTA_UNEXPECTED_ERROR"


def test_control_characters_of_a_log_are_escaped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    deltalake.write_deltalake(tmp_path, pa.table({"a": [1]}), name="\x1b[2J[red]x[/red]")
    assert main(["detail", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b[2J[red]x[/red]" in out


def test_sizes_and_texts() -> None:
    assert [size_text(size) for size in (0, 1023, 1024, 1536, 2**40, 2**62)] == [
        "0 B",
        "1,023 B",
        "1.0 KiB",
        "1.5 KiB",
        "1.0 TiB",
        "4,096.0 PiB",
    ]
    assert printable("a\tb\u202ec") == "a\\tb\\u202ec"


def test_a_registry_names_tables_and_their_policies(lake: Path, tmp_path: Path, invoke: Invoke) -> None:
    registry = tmp_path / "lakehouse.yaml"
    registry.write_text(
        f"""
tables:
  orders: {{uri: {lake}/orders, cluster_by: [id], quarantine: {lake}/none}}
  events: {{uri: {lake}/events}}
records: {tmp_path}/records
"""
    )
    values = invoke.document("health", "--registry", registry)
    assert [entry["table"] for entry in values["tables"]] == ["orders", "events"]
    values = invoke.document("plan", "orders", "--registry", registry)
    assert {step["verb"] for step in values["steps"]} == {"z_order", "checkpoint"}
    assert invoke("health", "nope", "--registry", registry)[0] == 2
    registry.write_text("tables: {orders: {url: x}}")
    code, _, err = invoke("health", "--registry", registry)
    assert code == 1
    assert err.startswith("[DELTA_REGISTRY_INVALID] ")


def test_the_registry_sets_records_and_maintenance_windows(tmp_path: Path, invoke: Invoke) -> None:
    for number in range(12):
        deltalake.write_deltalake(tmp_path / "t", pa.table({"id": [number]}), mode="append")
    registry = tmp_path / "lakehouse.yaml"
    opens, closes = (time.strftime("%H:%M", time.gmtime(time.time() + hours * 3600)) for hours in (2, 3))
    window = f"budget: {{window: {{start: '{opens}', end: '{closes}'}}}}"
    registry.write_text(f"tables: {{t: {{uri: t}}}}\nrecords: records\n{window}\n")
    code, _, err = invoke("maintain", "--registry", registry, "--run")
    assert code == 1
    assert err.startswith("[DELTA_MAINTENANCE_WINDOW_CLOSED] ")
    assert len(invoke.document("plan", "--registry", registry)["steps"]) == 2
    assert invoke("maintain", "--registry", registry, "--run", "--budget-seconds=60")[0] == 0
    assert deltalake.DeltaTable(tmp_path / "records/runs").to_pyarrow_table().num_rows == 2


def test_registry_check_prints_the_place_of_each_mistake(tmp_path: Path, invoke: Invoke) -> None:
    registry = tmp_path / "lakehouse.yaml"
    registry.write_text("tables:\n  orders:\n    uri: orders\n    cluster: [id]\n  events:\n    url: x\n")
    code, out, err = invoke("registry", "check", registry)
    assert (code, out) == (1, "")
    assert f"[DELTA_REGISTRY_INVALID] {registry}:4:5: tables.orders.cluster: unknown key" in err
    assert f"[DELTA_REGISTRY_INVALID] {registry}:6:5: tables.events.url: unknown key" in err
    code, out, _ = invoke("registry", "check", registry, "--json")
    document = json.loads(out)
    assert (code, document["is_valid"]) == (1, False)
    assert {problem["line"] for problem in document["problems"]} == {4, 5, 6}
    registry.write_text("tables: {orders: {uri: orders}}\n")
    assert invoke("registry", "check", registry) == (0, f"{registry} is valid\n", "")
    assert invoke("registry", "check", tmp_path / "none")[0] == 1


def test_registry_schema_is_the_published_one(invoke: Invoke) -> None:
    published = (Path(__file__).parents[3] / "docs/lakehouse.schema.json").read_text()
    assert invoke("registry", "schema") == (0, published, "")
    assert invoke.document("registry", "schema") == json.loads(published)


def test_tables_below_a_prefix(lake: Path, tmp_path: Path, invoke: Invoke) -> None:
    locations = [str(lake / name) for name in ("events", "orders", "spark")]
    assert invoke.document("discover", lake)["tables"] == locations
    assert invoke("discover", lake) == (0, "".join(f"{location}\n" for location in locations), "")
    values = invoke.document("detail", "--under", lake)
    assert [entry["location"] for entry in values["tables"]] == locations
    assert invoke("detail", "--under", tmp_path)[0] == 1
    assert invoke("detail", "--under", lake, "--registry", "x")[0] == 2


def test_erase_counts_the_rows_of_a_person_and_prints_no_identifier(tmp_path: Path, invoke: Invoke) -> None:
    for table in ("customers", "orders"):
        rows = pa.table({"customer_id": [4711, 4711, 2], "n": [1, 2, 3]})
        deltalake.write_deltalake(tmp_path / table, rows)
    deltalake.DeltaTable(tmp_path / "orders").delete("n = 1")
    registry = {
        "tables": {name: {"uri": name} for name in ("customers", "orders")},
        "subjects": {
            "customer": {
                "id_type": "long",
                "rows": [{"table": name, "key": "customer_id"} for name in ("customers", "orders")],
                "approvers": ["officer"],
            }
        },
        "ledger": "ledger",
    }
    file = tmp_path / "tables.json"
    file.write_text(json.dumps(registry))
    (tmp_path / "id").write_text("4711\n")
    words = ["erase", "--registry", file, "--subject=customer", f"--id-file={tmp_path / 'id'}"]
    entries = {entry["table"]: entry for entry in invoke.document(*words, "--dry-run")["tables"]}
    assert (entries["customers"]["rows"], entries["orders"]["rows"]) == (2, 1)
    assert entries["orders"]["on_disk"]["rows"] == 3  # two in the removed file, one in the new file
    code, out, err = invoke(*words, "--dry-run")
    assert code == 0
    assert "4711" not in out + err
    assert invoke(*words)[0] == 2  # without --dry-run
    (tmp_path / "id").write_text("four-7")
    code, out, err = invoke(*words, "--dry-run")
    assert code == 1
    assert "four-7" not in out + err
