"""Conditions with functions: no file with a matching row is skipped."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from lakehouse_lib.arrow.values import flags_of
from lakehouse_lib.data_skipping import may_match
from lakehouse_lib.expressions import matches, parse_value, values_of
from lakehouse_lib.expressions.ir import Literal, Node, Not, is_null
from lakehouse_lib.expressions.parsing.comparison import compare
from lakehouse_lib.expressions.parsing.sql import translate_value
from lakehouse_lib.expressions.predicate import Predicate
from lakehouse_lib.expressions.render_spark import render
from lakehouse_lib.schema import Field, PrimitiveType, Schema, TableLayout
from lakehouse_lib.statistics import float_ranges, from_footer, indexed_columns
from tests.lakehouse_lib.expressions.function_cases import EXPRESSIONS, tables
from tests.table_builder import files_with


def conditions(node: Node, values: pa.Array, choose: np.random.Generator) -> list[Node]:
    """Conditions on the value of an expression, some of which are true in some rows."""
    assert isinstance(node.type, PrimitiveType)
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    present = values.drop_null()
    literals = [Literal(present[int(row)].as_py(), node.type) for row in choose.integers(0, len(present), 2)]
    operators = choose.choice(["=", "!=", "<", "<=", ">", ">=", "<=>"], 2)
    compared = [compare(operator, node, literal) for operator, literal in zip(operators, literals, strict=True)]
    return [is_null(node), *compared, *map(Not, compared)]


def files_of(data: pa.Table, schema: Schema) -> tuple[pa.Table, list[pa.Table]]:
    """A files table with statistics, partitioned by the column ``j``, and the rows of each file."""
    chunks = [
        part.slice(start, 30)
        for value in data["j"].unique().to_pylist()
        for part in [data.filter(pc.equal(data["j"], value) if value is not None else pc.is_null(data["j"]))]
        for start in range(0, len(part), 30)
    ]
    indexed = indexed_columns(TableLayout(schema), {})
    stats = []
    for chunk in chunks:
        sink = pa.BufferOutputStream()
        pq.write_table(chunk, sink)
        footer = pq.ParquetFile(pa.BufferReader(sink.getvalue())).metadata
        stats.append(from_footer(footer, schema, indexed=indexed, floats=float_ranges(chunk)))
    values = [chunk["j"][0].as_py() for chunk in chunks]
    return files_with(stats, [{"j": None if value is None else str(value)} for value in values]), chunks


@pytest.mark.slow
@settings(max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=tables())
def test_no_file_with_a_matching_row_is_skipped(data: pa.Table) -> None:
    schema = Schema.from_arrow(data.schema)
    layout = TableLayout(schema, ("j",))
    files, chunks = files_of(data, schema)
    choose = np.random.default_rng(len(chunks))
    skipped = 0
    for sql in EXPRESSIONS:
        node = translate_value(sql, schema, None)
        kind = node.type
        if not isinstance(kind, PrimitiveType):
            continue
        value = parse_value(sql, Field("v", kind), schema)
        values = values_of({"v": value}, data, Schema([Field("v", kind)]))["v"].combine_chunks()
        if values.null_count == len(values):
            continue
        for condition in conditions(node, values, choose):
            predicate = Predicate(render(condition), condition)
            for keeps, rows in zip(may_match(predicate, files, layout).to_pylist(), chunks, strict=True):
                assert keeps or not flags_of(matches(predicate, rows)).any(), predicate
                skipped += not keeps
    assert skipped
