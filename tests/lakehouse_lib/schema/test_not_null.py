"""NOT NULL at every depth, in its Arrow form. tests/lakehouse_lib/engine/test_row_rules.py has both engines."""

from __future__ import annotations

import pickle

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from lakehouse_lib.errors import ConstraintViolatedError
from lakehouse_lib.schema import (
    ArrayType,
    Field,
    MapType,
    Schema,
    StructType,
    TableLayout,
    align,
    align_batches,
    check_rows,
    not_null_rules,
)

POINT = StructType([Field("x", "long", nullable=False), Field("label", "string")])
SCHEMA = Schema(
    [
        Field("id", "long", nullable=False),
        Field("point", POINT),
        Field("tags", ArrayType("string", contains_null=False)),
        Field("path", ArrayType(ArrayType(POINT))),
        Field("scores", MapType("string", StructType([Field("n", "long", nullable=False)]), value_contains_null=False)),
        Field("p.q", StructType([Field("a_b", "long", nullable=False)]), nullable=False),
    ]
)
RULES = {rule.name: rule for rule in not_null_rules(TableLayout(SCHEMA))}


def optional(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | values


LONG = optional(st.integers(0, 3))
POINTS = optional(st.fixed_dictionaries({"x": LONG, "label": optional(st.text(max_size=2))}))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": LONG,
            "point": POINTS,
            "tags": optional(st.lists(optional(st.text(max_size=2)), max_size=3)),
            "path": optional(st.lists(optional(st.lists(POINTS, max_size=3)), max_size=3)),
            "scores": optional(
                st.dictionaries(st.text(max_size=2), optional(st.fixed_dictionaries({"n": LONG})), max_size=3)
            ),
            "p.q": optional(st.fixed_dictionaries({"a_b": LONG})),
        }
    ),
    max_size=8,
)


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


def arrow(rows: list[dict]) -> pa.RecordBatch:
    nullable = pa.schema(
        [
            ("id", pa.int64()),
            ("point", pa.struct([("x", pa.int64()), ("label", pa.string())])),
            ("tags", pa.list_(pa.string())),
            ("path", pa.list_(pa.list_(pa.struct([("x", pa.int64()), ("label", pa.string())])))),
            ("scores", pa.map_(pa.string(), pa.struct([("n", pa.int64())]))),
            ("p.q", pa.struct([("a_b", pa.int64())])),
        ]
    )
    maps = [{**row, "scores": None if row["scores"] is None else list(row["scores"].items())} for row in rows]
    return pa.RecordBatch.from_pylist(maps, nullable)


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


def test_what_lies_under_a_null_violates_nothing() -> None:
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
