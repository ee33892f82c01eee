"""Functions and operators on generated columns: Arrow gives the values and the types that Spark gives."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from lakehouse_lib.engine.spark.session_settings import session_settings
from lakehouse_lib.expressions import parse_value, values_of
from lakehouse_lib.expressions.evaluate_arrow import is_renderable
from lakehouse_lib.expressions.kernels import text
from lakehouse_lib.expressions.parsing.generation import type_of_generation
from lakehouse_lib.schema import Field, Schema
from tests.lakehouse_lib.expressions.function_cases import EXPRESSIONS, tables

#: To compile the expressions would take longer than to interpret them.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
ANSI = {"spark.sql.ansi.enabled": "true", "spark.sql.session.timeZone": "UTC"}


def texts(values: Any, kind: Any) -> list[str]:
    """The values as text that distinguishes -0.0 from 0.0, but not the bits of NaN."""
    return [repr(value) for value in values.cast(kind).to_pylist()]


@pytest.mark.slow
# An example takes Spark some seconds, so a failing example is not shrunk.
@settings(max_examples=3, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=tables())
def test_values_and_types_are_those_of_spark(spark: Any, data: pa.Table) -> None:
    from lakehouse_lib.engine.spark.columns import struct_type

    schema = Schema.from_arrow(data.schema)
    with session_settings(spark, INTERPRETED):
        frame = spark.createDataFrame(data, struct_type(schema)).coalesce(1)
        with session_settings(spark, ANSI):
            judged = frame.selectExpr(*(f"{sql} AS `{number}`" for number, sql in enumerate(EXPRESSIONS)))
            kinds = Schema.from_json(judged.schema.json())
            expected = judged.toArrow()
        values = {
            str(number): parse_value(sql, Field(str(number), kinds.fields[number].type), schema)
            for number, sql in enumerate(EXPRESSIONS)
        }
        rendered = frame.selectExpr(*(f"{value.spark_sql} AS `{name}`" for name, value in values.items())).toArrow()
    assert [sql for value, sql in zip(values.values(), EXPRESSIONS, strict=True) if not is_renderable(value.root)] == []
    actual = values_of(values, data, kinds)
    differences: dict[str, Any] = {}
    for number, sql in enumerate(EXPRESSIONS):
        kind = kinds.fields[number].type
        if type_of_generation(sql, schema) != kind:
            differences[f"{sql} has the type {kind}"] = type_of_generation(sql, schema)
        on_spark, on_arrow, by_rendering = (
            texts(values, kind.to_arrow())
            for values in (expected.column(number), actual[str(number)], rendered.column(number))
        )
        if not on_spark == on_arrow == by_rendering:
            differences[sql] = next(
                row
                for row in zip(data.to_pylist(), on_spark, on_arrow, by_rendering, strict=True)
                if len(set(row[1:])) > 1
            )
    assert differences == {}


@pytest.mark.slow
def test_upper_and_lower_case_of_every_letter(spark: Any) -> None:
    numbers = [number for number in range(1, 0x110000) if not 0xD800 <= number < 0xE000]
    letters = pa.table({"s": list(map(chr, numbers))})
    letters = letters.filter(pc.invert(pc.match_substring_regex(letters["s"], f"[{text.NEW_PAIRS}]")))
    cases = spark.createDataFrame(letters).coalesce(1).selectExpr("s", "upper(s) AS u", "lower(s) AS l").toArrow()
    own = cases["s"].combine_chunks()
    for name, function in (("u", text.upper), ("l", text.lower)):
        differs = pc.not_equal(cases[name], function(own))
        assert cases.filter(differs)["s"].to_pylist() == []
