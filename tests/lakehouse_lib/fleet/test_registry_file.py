"""The registry as a file: YAML and JSON, inheritance of settings, problems with their lines, and tables that exist."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
import yaml

from lakehouse_lib.fleet.discover import discover
from lakehouse_lib.fleet.planner.policy import Policy
from lakehouse_lib.fleet.planner.verbs import VERBS
from lakehouse_lib.fleet.registry import (
    RegistryError,
    RegistryUnreadableError,
    Window,
    check_registry,
    read_registry,
    registry_schema,
)
from lakehouse_lib.fleet.table_run import MaintainedTable
from lakehouse_lib.store import open_store

ROOT = Path(__file__).parents[3]
EXAMPLE = re.search(r"^```yaml\n(.*?)^```$", (ROOT / "docs/registry.md").read_text(), re.MULTILINE | re.DOTALL)


def written(folder: Path, text: str, name: str = "lakehouse.yaml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_the_example_of_the_docs_is_valid_as_yaml_and_as_json(tmp_path: Path) -> None:
    assert EXAMPLE is not None
    file = written(tmp_path, EXAMPLE[1])
    assert check_registry(file) == []
    registry = read_registry(file)
    assert list(registry.fleet()) == ["orders", "clicks", "orders_quarantine"]
    assert registry.budget.bytes == 200 * 2**30
    json_file = written(tmp_path, json.dumps(yaml.safe_load(EXAMPLE[1]), indent="\t"), "lakehouse.json")
    assert read_registry(json_file) == registry


def test_a_table_has_the_settings_of_its_group_and_the_defaults(tmp_path: Path) -> None:
    assert EXAMPLE is not None
    registry = read_registry(written(tmp_path, EXAMPLE[1].replace("s3://lake/clicks", "clicks")))
    policies = {name: MaintainedTable.of(name, table).policy for name, table in registry.fleet().items()}
    assert policies["orders"] == Policy(VERBS, ("customer_id", "order_date"), None, None, True, 3.0, 50.0)
    assert policies["clicks"] == Policy(VERBS, (), 256 * 2**20, 48.0, False, 1.0, 50.0)
    assert policies["orders_quarantine"] == Policy(payback_queries=50.0)


def test_every_mistake_has_its_line_and_column(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """\
tables:
  orders:
    uri: tables/orders
    group: night
    target_file_size: 0
    vacuum: {retention_hours: -1}
  clicks:
    urI: tables/clicks
schedule: {}
""",
    )
    problems = check_registry(file)
    assert [(problem.line, problem.column, problem.key) for problem in problems] == [
        (5, 5, "tables.orders.target_file_size"),
        (6, 14, "tables.orders.vacuum.retention_hours"),
        (7, 3, "tables.clicks.uri"),
        (8, 5, "tables.clicks.urI"),
        (9, 1, "schedule"),
    ]
    assert [problem.message for problem in problems][-2:] == ["unknown key", "unknown key"]
    file.write_text("tables:\n  a: {uri: a}\n  b: {uri: b, group: night}\n")
    (problem,) = check_registry(file)
    assert (problem.line, problem.column) == (3, 15)
    assert problem.message == "tables.b.group is 'night'; expected one of groups: none"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tables: {a: {uri: x}, a: {uri: y}}", "the key 'a' in line 1 occurs twice"),
        ("tables:\n  a: &x {uri: x}\n  b: *x\n", "line 2 is used by an alias"),
        ("tables: [", "the registry is not YAML"),
        ("tables: !!python/object/apply:os.system [echo]", "the registry is not YAML"),
        ("- a\n- b\n", "Input should be a valid dictionary"),
        ("", "Input should be a valid dictionary"),
    ],
)
def test_text_that_is_not_a_registry_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(RegistryError, match=message):
        read_registry(file)


def test_a_mistake_in_the_defaults_is_reported_once(tmp_path: Path) -> None:
    file = written(tmp_path, "defaults: {cluster: [a]}\ntables:\n  a: {uri: a}\n  b: {uri: b}\n")
    (problem,) = check_registry(file)
    assert (problem.key, problem.line) == ("defaults.cluster", 1)


def test_a_registry_is_read_from_a_store(tmp_path: Path) -> None:
    text = "tables:\n  a: {uri: tables/a}\n  b: {uri: /data/b}\n"
    open_store(tmp_path).put("lakehouse.yaml", text.encode())
    registry = read_registry(f"file://{tmp_path}/lakehouse.yaml")
    assert registry.table("a").uri == f"file://{tmp_path}/tables/a"
    assert registry.table("b").uri == "/data/b"
    with pytest.raises(RegistryUnreadableError, match=r"nothing\.yaml: the registry cannot be read"):
        read_registry(f"file://{tmp_path}/nothing.yaml")
    open_store(tmp_path).put("lakehouse.yaml", text.replace("uri: /data/b", "uri: b, suite: b.json").encode())
    with pytest.raises(RegistryError, match=r"tables\.b\.suite: .*expected an absolute path"):
        read_registry(f"file://{tmp_path}/lakehouse.yaml")


def test_the_published_schema_is_that_of_the_models() -> None:
    assert json.loads((ROOT / "docs/lakehouse.schema.json").read_text()) == registry_schema()


@pytest.mark.parametrize(
    ("time", "seconds"),
    [
        ("2026-11-25T21:30", 0),  # 22:30 in Berlin is a Wednesday
        ("2026-11-27T20:59", 0),
        ("2026-11-27T21:00", 8 * 3600),  # Friday 22:00 in Berlin
        ("2026-11-28T04:59", 60),
        ("2026-11-28T05:00", 0),
    ],
)
def test_a_window_may_include_midnight(time: str, seconds: float) -> None:
    window = Window(start="22:00", end="06:00", timezone="Europe/Berlin", days=("friday",))
    assert window.seconds_left(datetime.fromisoformat(time).replace(tzinfo=UTC)) == seconds


def test_tables_are_found_and_not_searched(tmp_path: Path) -> None:
    for name in ("a", "b/c", "b/d", "a/inner"):
        deltalake.write_deltalake(tmp_path / name, pa.table({"x": [1]}))
    (tmp_path / "none").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "b")
    assert list(discover(str(tmp_path))) == [str(tmp_path / name) for name in ("a", "b/c", "b/d")]
    assert list(discover(str(tmp_path / "a"))) == [str(tmp_path / "a")]
    assert list(discover(str(tmp_path / "nothing"))) == []
