"""The demo's registry is accepted by the DAGs, and its files have the right content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from demo import lakehouse
from demo.home import Home
from lakehouse_airflow.registry import load_registry
from lakehouse_lib.fleet.registry import Registry


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "home")
    lakehouse.write_registry(home)
    return home


@pytest.fixture
def registry(home: Home) -> Registry:
    return load_registry(home.registry)


def test_every_table_is_loaded_and_gated_and_is_below_the_home(home: Home, registry: Registry) -> None:
    assert registry.loaded_tables() == sorted(lakehouse.COLUMNS)
    for name in lakehouse.COLUMNS:
        table = registry.table(name)
        assert Path(table.uri).is_relative_to(home.root)
        assert Path(str(table.quarantine)).is_relative_to(home.root)
        assert Path(str(table.schema_file)).is_file()
        assert Path(str(table.suite)).is_file()


def test_vacuum_is_overridden_explicitly_and_files_are_small(registry: Registry) -> None:
    for name in lakehouse.COLUMNS:
        table = registry.table(name)
        assert table.vacuum.retention_hours == 0
        assert table.vacuum.enforce_retention is False
        assert table.target_file_size <= 4 * 1024 * 1024


def test_the_big_tables_get_at_least_six_versions(registry: Registry) -> None:
    from demo.data import LANDING_FILES

    for name in ("orders", "lineitem"):
        source = registry.table(name).source
        assert source is not None
        assert LANDING_FILES[name] / source.files_per_batch >= 6


def test_schemas_and_suites_name_existing_columns(registry: Registry) -> None:
    for name, columns in lakehouse.COLUMNS.items():
        table = registry.table(name)
        schema = json.loads(Path(str(table.schema_file)).read_text())
        assert [field["name"] for field in schema["fields"]] == list(columns)
        assert {field["name"] for field in schema["fields"] if not field["nullable"]} == set(lakehouse.KEYS[name])
        suite = json.loads(Path(str(table.suite)).read_text())
        used = {
            rule["kwargs"][argument]
            for rule in suite["expectations"]
            for argument in ("column", "column_A", "column_B")
            if argument in rule["kwargs"]
        }
        assert used
        assert used <= set(columns)
        identities = [rule["meta"]["rule_id"] for rule in suite["expectations"]]
        assert len(identities) == len(set(identities))


def test_the_customer_is_found_in_every_table(registry: Registry) -> None:
    assert {row.table for row in registry.subject("customer").rows} >= set(lakehouse.COLUMNS)


def test_selective_queries_are_about_the_z_order_columns(registry: Registry) -> None:
    for name, predicates in lakehouse.SELECTIVE.items():
        assert tuple(predicates) == registry.table(name).cluster_by
