"""NOT NULL at every depth, in its Arrow form. tests/lakehouse_lib/engine/test_row_rules.py has both engines."""

from __future__ import annotations

import pickle

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from lakehouse_lib.errors import ConstraintViolatedError
from lakehouse_lib.schema import (
    Field,
    Schema,
    TableLayout,
    align,
    align_batches,
    check_rows,
    not_null_rules,
)
from tests.lakehouse_lib.schema.nested_rows import ROWS, RULES, SCHEMA, arrow


def expected(row: dict) -> set[str]:
    """The names of the rules that a row violates, for each place."""
    names = set()
    if row["id"] is None:
        names.add("NOT NULL id")
    if row["point"] is not None and row["point"]["x"] is None:
        names.add("NOT NULL point.x")
    if None in (row["tags"] or []):
        names.add("NOT NULL tags.element")
    points = [point for line in row["path"] or [] for point in line or []]
    if any(point is not None and point["x"] is None for point in points):
        names.add("NOT NULL path.element.element.x")
    scores = list((row["scores"] or {}).values())
    if None in scores:
        names.add("NOT NULL scores.value")
    if any(score is not None and score["n"] is None for score in scores):
        names.add("NOT NULL scores.value.n")
    if row["p.q"] is None:
        names.add("NOT NULL p.q")
    elif row["p.q"]["a_b"] is None:
        names.add("NOT NULL p.q.a_b")
    return names


def test_a_rule_for_each_place_in_the_schemas_order() -> None:
    assert list(RULES) == [
        "NOT NULL id",
        "NOT NULL point.x",
        "NOT NULL tags.element",
        "NOT NULL path.element.element.x",
        "NOT NULL scores.value",
        "NOT NULL scores.value.n",
        "NOT NULL p.q",
        "NOT NULL p.q.a_b",
    ]
    assert RULES["NOT NULL path.element.element.x"].condition == (
        "(`path` IS NULL OR FORALL(`path`, item0 -> (item0 IS NULL OR FORALL(item0, item1 -> "
        "(item1 IS NULL OR item1.`x` IS NOT NULL)))))"
    )
    assert pickle.loads(pickle.dumps(RULES)) == RULES


@given(ROWS, st.integers(0, 3))
def test_rows_with_a_null_are_the_violations(rows: list[dict], start: int) -> None:
    for batch in (arrow(rows).slice(start), align(arrow(rows), SCHEMA).slice(start)):
        for name, rule in RULES.items():
            assert rule.violations(batch).tolist() == [name in expected(row) for row in rows[start:]], name


def test_values_under_a_null_violate_no_rule() -> None:
    hidden = pa.StructArray.from_arrays([pa.array([None, 1]), pa.array(["a", "b"])], names=["x", "label"])
    struct = pa.StructArray.from_buffers(hidden.type, 2, [pa.py_buffer(b"\x02")], children=hidden.flatten())
    lists = pa.ListArray.from_buffers(
        pa.list_(pa.string()),
        2,
        [pa.py_buffer(b"\x02"), pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0")],
        children=[pa.array([None, "b"])],
    )
    batch = pa.RecordBatch.from_arrays([struct, lists], names=["point", "tags"])
    assert batch.to_pylist()[0] == {"point": None, "tags": None}
    for name in ("NOT NULL point.x", "NOT NULL tags.element"):
        assert not RULES[name].violations(batch).any()


@pytest.mark.parametrize("kind", ["string", "binary"])
def test_the_empty_text_is_null_in_a_partition_column(kind: str) -> None:
    schema = Schema([Field("p", kind, nullable=False), Field("v", kind, nullable=False)])
    rules = not_null_rules(TableLayout(schema, ("p",)))
    values = pa.array([b"", None, b"x"], pa.binary()).cast(pa.string() if kind == "string" else pa.binary())
    batch = pa.RecordBatch.from_arrays([values, values], names=["p", "v"])
    assert [rule.violations(batch).tolist() for rule in rules] == [[True, True, False], [False, True, False]]


def test_the_error_has_the_first_rule_the_count_and_ten_rows() -> None:
    bad = {"id": 1, "point": None, "tags": ["a", None], "path": None, "scores": None, "p.q": None}
    good = bad | {"tags": None, "p.q": {"a_b": 1}}
    batches = align_batches([arrow(rows) for rows in ([good], [bad, good], [bad] * 20)], SCHEMA)
    with pytest.raises(ConstraintViolatedError) as refused:
        list(check_rows(batches, list(RULES.values()), table="/t"))
    assert refused.value.table == "/t"
    assert refused.value.code == "DELTA_CONSTRAINT_VIOLATED"
    message, _, rows = refused.value.message.partition(", such as ")
    assert message == "the data violates NOT NULL tags.element: 21 of 23 rows"
    row = "{'tags': ['a', None], 'id': 1, 'point': None, 'path': None, 'scores': None, 'p.q': None}"
    assert rows == ", ".join([row] * 10)
