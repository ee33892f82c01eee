"""SQL in a merge that only Spark evaluates: Spark computes it from the source, before the merge."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, InvalidPredicateError, write_deltalake
from lakehouse_lib.engine.spark.engine import SparkEngine


@pytest.fixture
def table(tmp_path: Path, spark: Any) -> DeltaTable:
    write_deltalake(
        tmp_path, pa.table({"email": ["ann@x", "bob@x", "cy@x"], "name": ["An", "Bo", "Cy"], "n": [1, 2, 3]})
    )
    return DeltaTable(tmp_path, engine=SparkEngine(spark))


def source() -> pa.Table:
    return pa.table(
        {"email": ["ANN@X", "Bob@X", "DAN@X", None], "name": ["ann", "?", "dan", "eve"], "n": [10, 20, 40, 50]}
    )


def test_source_columns_of_spark_are_joined_tested_and_assigned(table: DeltaTable) -> None:
    merger = table.merge(source(), "t.email = reverse(reverse(lower(s.email)))", source_alias="s", target_alias="t")
    merger.when_matched_delete("s.name RLIKE '^[?]$'")
    merger.when_matched_update({"name": "initcap(s.name)", "n": "t.n + length(upper(s.name)) * 10"})
    merger.when_not_matched_insert(
        {"email": "lower(s.email)", "name": "CASE WHEN s.n > 0 THEN initcap(s.name) END", "n": "s.n"},
        "ascii(s.email) > 0",
    )
    metrics = merger.execute()
    rows = table.to_pyarrow_table().sort_by("email").to_pylist()
    assert [tuple(row.values()) for row in rows] == [("ann@x", "Ann", 31), ("cy@x", "Cy", 3), ("dan@x", "Dan", 40)]
    assert metrics["num_target_rows_deleted"] == 1
    parameters = table.history(1)[0]["operationParameters"]
    assert "reverse(reverse(lower(s.email)))" in str(parameters["predicate"])  # the user's text


@pytest.mark.parametrize(
    ("condition", "value", "text", "code"),
    [
        ("t.n = s.n", "initcap(t.name)", "INITCAP(t.name)", "DELTA_PREDICATE_NEEDS_SPARK"),
        ("t.n = s.n", "concat(s.name, uuid())", "UUID()", None),
        ("t.n = s.n", "no_such_function(s.name)", "NO_SUCH_FUNCTION(s.name)", None),
        ("t.n = s.n", "stack(2, s.name, s.email)", "STACK", "DELTA_INVALID_ASSIGNMENT"),
        ("t.n = s.n", "inline(array(struct(s.name)))", "INLINE", "DELTA_INVALID_ASSIGNMENT"),
        ("t.n = s.n", "array(s.name, s.email)", "", "DELTA_INVALID_ASSIGNMENT"),
        ("t.n = s.n", "(SELECT max(n) FROM x)", "subqueries", "DELTA_INVALID_ASSIGNMENT"),
    ],
)
def test_expressions_that_spark_cannot_evaluate_on_the_source_are_refused(
    table: DeltaTable, condition: str, value: str, text: str, code: str | None
) -> None:
    with pytest.raises(InvalidPredicateError) as refusal:
        table.merge(source(), condition, source_alias="s", target_alias="t").when_matched_update(
            {"name": value}
        ).execute()
    assert text in str(refusal.value)
    assert "__lakehouse" not in str(refusal.value)
    assert refusal.value.table == table.table_uri
    assert code in (None, refusal.value.code), refusal.value.code
    assert table.version() == 0
