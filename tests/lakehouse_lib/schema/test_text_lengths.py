"""The lengths of CHAR and VARCHAR at every depth, in their Arrow form. The tests of the engines are in ../engine."""

from __future__ import annotations

import pickle

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from lakehouse_lib.schema import ArrayType, Field, Schema, StructType, TableLayout, text_length_rules
from tests.char_table import SCHEMA

RULES = {rule.name: rule for rule in text_length_rules(TableLayout(SCHEMA))}
TEXTS = st.none() | st.text(alphabet="aä𝄞 ", max_size=5)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "v": TEXTS,
            "c": TEXTS,
            "s": st.none() | st.fixed_dictionaries({"m": TEXTS, "n": st.none()}),
            "a": st.none() | st.lists(TEXTS, max_size=3),
            "mm": st.none() | st.dictionaries(st.text(max_size=4), TEXTS, max_size=3),
        }
    ),
    max_size=6,
)


def expected(row: dict) -> set[str]:
    """The names of the rules that a row violates."""
    places = {
        "VARCHAR(3) v": ([row["v"]], 3),
        "CHAR(4) c": ([row["c"]], 4),
        "VARCHAR(2) s.m": ([(row["s"] or {}).get("m")], 2),
        "CHAR(2) a.element": (row["a"] or [], 2),
        "VARCHAR(2) mm.key": ([*(row["mm"] or {})], 2),
        "VARCHAR(3) mm.value": ([*(row["mm"] or {}).values()], 3),
    }
    return {name for name, (texts, limit) in places.items() if any(len(text or "") > limit for text in texts)}


@given(ROWS, st.integers(0, 3))
def test_rows_with_a_longer_text_are_the_violations(rows: list[dict], start: int) -> None:
    maps = [{**row, "mm": None if row["mm"] is None else list(row["mm"].items())} for row in rows]
    batch = pa.RecordBatch.from_pylist(maps, SCHEMA.to_arrow()).slice(start)
    for name, rule in RULES.items():
        assert rule.violations(batch).tolist() == [name in expected(row) for row in rows[start:]], name


def test_a_rule_for_each_place_with_a_limit() -> None:
    assert list(RULES) == [
        "VARCHAR(3) v",
        "CHAR(4) c",
        "VARCHAR(2) s.m",
        "CHAR(2) a.element",
        "VARCHAR(2) mm.key",
        "VARCHAR(3) mm.value",
    ]
    assert RULES["VARCHAR(2) s.m"].condition == "(`s` IS NULL OR (`s`.`m` IS NULL OR LENGTH(`s`.`m`) <= 2))"
    assert pickle.loads(pickle.dumps(RULES)) == RULES


@pytest.mark.parametrize(
    ("declared", "limits"),
    [
        (
            "struct<order:varchar(2),d:decimal(9,2),l:array<struct<x y:char(1)>>>",
            ["VARCHAR(2) s.order", "CHAR(1) s.l.element.x y"],
        ),
        ("struct<d:decimal(9,2)>", []),
        ("struct<old:varchar(2)>", []),
        ("array<varchar(2)>", []),
        ("struct<order", []),
        ("", []),
    ],
)
def test_declared_types_of_a_struct(declared: str, limits: list[str]) -> None:
    inner = ArrayType(StructType([Field("x y", "string")]))
    kind = StructType([Field("order", "string"), Field("d", "decimal(9,2)"), Field("l", inner)])
    schema = Schema([Field("s", kind, metadata={"__CHAR_VARCHAR_TYPE_STRING": declared})])
    assert [rule.name for rule in text_length_rules(TableLayout(schema))] == limits
