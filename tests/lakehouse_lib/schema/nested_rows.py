"""Rows of a schema with NOT NULL at every depth."""

from __future__ import annotations

import hypothesis.strategies as st
import pyarrow as pa

from lakehouse_lib.schema import (
    ArrayType,
    Field,
    MapType,
    Schema,
    StructType,
    TableLayout,
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
