"""Inheritance of settings: a table's settings override its group's settings, which override the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from lakehouse_lib.fleet.registry.tables import Settings


def with_inherited_settings(body: Any) -> Any:
    """The body of a registry, in which each table has the settings that it inherits.

    Settings that are not valid are not inherited, so that a mistake is reported once.
    """
    if not isinstance(body, Mapping) or not isinstance(body.get("tables"), Mapping):
        return body
    groups = body.get("groups")
    groups = groups if isinstance(groups, Mapping) else {}
    defaults = _valid(body.get("defaults"))
    by_group = {name: _merged(defaults, _valid(group)) for name, group in groups.items()}
    tables = {
        name: _merged(by_group.get(_text(table.get("group")), defaults), table) if isinstance(table, Mapping) else table
        for name, table in body["tables"].items()
    }
    return {**body, "tables": tables}


def _merged(lower: Mapping[str, Any], upper: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of both. A setting of ``upper`` overrides ``lower``; two mappings are merged.

    A mapping in a mapping, such as ``airflow.spark_conf``, is a single setting and is not merged.
    """
    merged = {**lower, **upper}
    for key in lower.keys() & upper.keys():
        if _is_map(lower[key]) and _is_map(upper[key]):
            merged[key] = {**lower[key], **upper[key]}
    return merged


def _valid(settings: Any) -> Mapping[str, Any]:
    try:
        Settings.model_validate(settings)
    except ValidationError:
        return {}
    return settings if _is_map(settings) else {}


def _is_map(value: Any) -> bool:
    return isinstance(value, Mapping)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
