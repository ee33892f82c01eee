"""The registry as a file: YAML and JSON, inheritance of settings, problems with their lines, and tables that exist."""

from __future__ import annotations

import contextlib
import json
import re
import traceback
from datetime import UTC, datetime
from pathlib import Path

import deltalake
import jsonschema
import pyarrow as pa
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

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
from lakehouse_lib.fleet.registry.document import SyntaxMistake, marks_of, parse
from lakehouse_lib.fleet.registry.window import BudgetSettings
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


def test_all_mistakes_are_reported_at_once(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """\
tables:
  orders: &orders {uri: orders, x: 1}
  clicks: *orders
  orders: {uri: old}
  events: {uri: !!str events, priority: 1}
  ? [a, b]
  : {uri: x}
""",
    )
    assert [(problem.line, problem.column, problem.key) for problem in check_registry(file)] == [
        (2, 33, "tables.orders.x"),
        (3, 11, "tables.clicks"),
        (4, 3, "tables.orders"),
        (5, 17, "tables.events.uri"),
        (5, 31, "tables.events.priority"),
        (6, 5, "tables"),
    ]
    with pytest.raises(RegistryError) as error:
        read_registry(file)
    assert str(error.value).count(f"{file}: ") == 6


def test_all_broken_rules_are_reported_at_once(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        """\
tables:
  a.b: {uri: a, group: x}
  c: {uri: a/, quarantine: c/_q}
report: {tables: [c, d, e], sql: c/report.sql, output: c/_q}
records: c/_q/records
""",
    )
    assert [(problem.line, problem.column) for problem in check_registry(file)] == [
        (2, 17),  # group x
        (3, 7),  # the location of a.b
        (4, 22),  # d
        (4, 25),  # e
        (4, 48),  # the report's table is the quarantine
        (5, 1),  # records is in the quarantine
    ]


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("tables: {a: {uri: x}, a: {uri: y}}", "the key 'a' occurs twice", (1, 23)),
        ('{"tables": {"a": {"uri": "x"},\n\t"a": {"uri": "\\ud83d\\ude00"}}}', "the key 'a' occurs twice", (2, 2)),
        ('{"tables": {\n\t"\\ud83d\\ude00": {},\n\t"a": {"uri": 3}}}', "valid string", (3, 8)),
        ("tables:\n  a: &x {uri: x}\n  b: *x\n", "the alias is not supported", (3, 6)),
        ("tables: [", "the registry is not YAML", (2, 1)),
        ('{"tables": [\n1,', "the registry is not JSON", (2, 3)),
        ("tables: a\x01", "the registry is not YAML", (1, 10)),
        ("tables: {}\n---\ntables: {}\n", "the registry has two documents", (2, 1)),
        ("tables: !!python/object/apply:os.system [echo]", "the tag is not supported", (1, 9)),
        ("tables: " + "[" * 100_000, "the registry has more than 32 levels", (1, 40)),
        ('{"tables": ' + "[" * 100_000, "the registry has more than 32 levels", (1, 43)),
        ("- a\n- b\n", "Input should be a valid dictionary", (1, 1)),
    ],
)
def test_text_that_is_not_a_registry_is_refused(
    tmp_path: Path, text: str, message: str, position: tuple[int | None, int | None]
) -> None:
    file = written(tmp_path, text)
    with pytest.raises(RegistryError, match=message):
        read_registry(file)
    problem = next(problem for problem in check_registry(file) if message in problem.message)
    assert (problem.line, problem.column) == position


def test_yaml_is_read_by_its_core_schema(tmp_path: Path) -> None:
    text = """\
{tables: {no: {uri: 1e3, cluster_by: [on, 2026-01-01, "1"], target_file_size: 0012,
  vacuum: {retention_hours: 1.5e1, enforce_retention: false}}, 1: {uri: x, target_file_size: null}}, # flow
 budget: {window: {start: 22:00, end: 06:00}}}
"""
    (problem,) = check_registry(written(tmp_path, text))
    assert (problem.key, problem.line, problem.column) == ("tables.no.uri", 1, 16)
    registry = read_registry(written(tmp_path, text.replace("1e3", "1e3s")))
    assert registry.tables["no"].cluster_by == ("on", "2026-01-01", "1")
    assert registry.policy("no") == Policy(
        cluster_by=("on", "2026-01-01", "1"), target_file_size=12, retention_hours=15.0, enforce_retention=False
    )
    assert registry.tables["1"].target_file_size is None
    assert registry.budget.window == Window(start="22:00", end="06:00")


def test_clustering_columns_are_distinct_and_not_partition_columns(tmp_path: Path) -> None:
    text = "defaults: {cluster_by: [day]}\ntables:\n  a: {uri: a, cluster_by: [id, ID]}\n  b: {uri: b}\n"
    (problem,) = check_registry(written(tmp_path, text))
    assert (problem.key, problem.message) == (
        "tables.a.cluster_by",
        "the columns have 'ID' twice; remove one of the two",
    )
    text = "defaults: {cluster_by: [day]}\ntables:\n  a: {uri: a}\n  b: {uri: b, partition_by: [Day]}\n"
    (problem,) = check_registry(written(tmp_path, text))
    assert "tables.b.cluster_by has the partition column 'day'" in problem.message
    assert (problem.line, problem.column) == (4, 3)


def test_a_size_is_not_a_boolean(tmp_path: Path) -> None:
    (problem,) = check_registry(written(tmp_path, "tables: {a: {uri: x, target_file_size: true}}"))
    assert problem.key == "tables.a.target_file_size"


def test_a_location_is_in_the_fleet_once(tmp_path: Path) -> None:
    text = (
        "tables: {a: {uri: a, quarantine: q}, b: {uri: b, quarantine: ./q/}, c: {uri: c, quarantine: d}, d: {uri: d}}"
    )
    assert list(read_registry(written(tmp_path, text)).fleet()) == ["a", "b", "c", "d", "a_quarantine"]


def test_a_mistake_in_the_defaults_is_reported_once(tmp_path: Path) -> None:
    file = written(tmp_path, "defaults: {cluster: [a]}\ntables:\n  a: {uri: a}\n  b: {uri: b}\n")
    (problem,) = check_registry(file)
    assert (problem.key, problem.line) == ("defaults.cluster", 1)


def test_an_empty_registry_file_may_be_a_write_in_progress(tmp_path: Path) -> None:
    for read in (read_registry, check_registry):
        with pytest.raises(RegistryUnreadableError, match=r"lakehouse\.yaml: the registry is empty"):
            read(written(tmp_path, "\n"))


def test_a_registry_is_read_from_a_store(tmp_path: Path) -> None:
    text = "tables:\n  a: {uri: tables/a}\n  b: {uri: /data/b}\n"
    open_store(tmp_path).put("lakehouse.yaml", text.encode())
    registry = read_registry(f"file://{tmp_path}/lakehouse.yaml")
    assert registry.table("a").uri == f"file://{tmp_path}/tables/a"
    assert registry.table("b").uri == "/data/b"
    up = read_registry(written(tmp_path, "tables: {a: {uri: ../../../../../../../../a}}").as_uri())
    assert up.table("a").uri == "file:///a"
    with pytest.raises(RegistryUnreadableError, match=r"nothing\.yaml: the registry cannot be read"):
        read_registry(f"file://{tmp_path}/nothing.yaml")
    open_store(tmp_path).put("lakehouse.yaml", text.replace("uri: /data/b", "uri: b, suite: b.json").encode())
    with pytest.raises(RegistryError, match=r"tables\.b\.suite: .*expected an absolute path"):
        read_registry(f"file://{tmp_path}/lakehouse.yaml")


@pytest.mark.parametrize("location", ["s3://ada:hunter2@lake/l.yaml", "https://lake/l.yaml?signature=a/hunter2"])
def test_a_secret_in_the_location_of_a_registry_is_not_shown(location: str) -> None:
    for call in (read_registry, check_registry):
        with pytest.raises(RegistryUnreadableError) as error:
            call(location)
        assert "hunter2" not in "".join(traceback.format_exception(error.value))


@pytest.mark.parametrize(
    "text",
    [
        "tables: {a: SECRET}",
        "tables: {a: {uri: [SECRET]}}",
        "tables: {a: {uri: a, group: 'SECRET', target_file_size: SECRET, cluster_by: SECRET}}",
        "tables: {SECRET: {uri: a}, SECRET: {uri: b, x: 1}}",
        '{"tables": {"SECRET": {"uri": "a"}, "SECRET": {"uri": "b"}}, "SECRET": 1}',
        "tables: *SECRET",
        "tables: !SECRET",
        "SECRET",
    ],
)
def test_a_location_in_the_wrong_place_is_not_shown(tmp_path: Path, text: str) -> None:
    file = written(tmp_path, text.replace("SECRET", "s3://ada:hunter2@lake/t"))
    with pytest.raises(RegistryError) as error:
        read_registry(file)
    assert "hunter2" not in "".join(traceback.format_exception(error.value))
    assert "hunter2" not in repr(check_registry(file))


PRINTABLE = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn", "Co", "Zl", "Zp"), exclude_characters="\ufeff"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | PRINTABLE,
        lambda inner: st.lists(inner) | st.dictionaries(PRINTABLE, inner),
        max_leaves=20,
    )
)
def test_json_in_yaml_has_the_values_of_json(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert parse(f"x: {text}").values == {"x": json.loads(json.dumps(value))}
    assert parse(f"- {text}\n").mistakes == []


@given(st.text("{}[]:,-?&*!'\"\\#|> \n\tab1", max_size=40))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    with contextlib.suppress(SyntaxMistake):
        parse(text)
    marks_of(text)


def test_the_published_schema_accepts_the_example() -> None:
    assert EXAMPLE is not None
    validator = jsonschema.Draft202012Validator(registry_schema())
    body = yaml.safe_load(EXAMPLE[1])
    validator.validate(body)
    assert not validator.is_valid({**body, "schedule": {}})


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


def test_a_window_is_shorter_when_the_clock_is_put_forward() -> None:
    window = Window(start="22:00", end="06:00", timezone="Europe/Berlin")
    opening = datetime(2026, 3, 28, 21, tzinfo=UTC)  # 22:00; at 02:00 it becomes 03:00
    assert window.seconds_left(opening) == 7 * 3600
    assert window.seconds_left(datetime(2026, 10, 24, 20, tzinfo=UTC)) == 9 * 3600
    assert window.seconds_left(datetime(2026, 3, 29, 4, tzinfo=UTC)) == 0


@pytest.mark.parametrize(
    ("days", "seconds"),
    [
        (("friday",), 60),
        (("friday", "saturday", "sunday"), 60 + 2 * 86_400),
        (("saturday",), 0),
        (("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"), None),
    ],
)
def test_a_window_of_the_whole_day_is_open_until_a_day_without_it(days: tuple[str, ...], seconds: int | None) -> None:
    window = Window(start="00:00", end="00:00", days=days)  # type: ignore[arg-type]
    friday = datetime(2026, 11, 27, 23, 59, tzinfo=UTC)
    assert window.seconds_left(friday) == seconds
    assert BudgetSettings(window=window).limits(friday) == (None, seconds)


def test_discovery_does_not_search_inside_tables(tmp_path: Path) -> None:
    for name in ("a", "b/c", "b/d", "a/inner"):
        deltalake.write_deltalake(tmp_path / name, pa.table({"x": [1]}))
    (tmp_path / "none").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "b")
    assert list(discover(str(tmp_path))) == [str(tmp_path / name) for name in ("a", "b/c", "b/d")]
    assert list(discover(str(tmp_path / "a"))) == [str(tmp_path / "a")]
    assert list(discover(str(tmp_path / "nothing"))) == []
