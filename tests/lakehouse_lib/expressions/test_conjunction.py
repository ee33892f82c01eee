"""The conjunction of two predicates keeps what errors and commits show."""

from __future__ import annotations

from lakehouse_lib.expressions import conjoin, parse
from lakehouse_lib.schema import Field, Schema

SCHEMA = Schema([Field("x", "long"), Field("s", "string")])


def test_a_conjunction_keeps_the_table_and_the_label() -> None:
    first = parse("x > 1", SCHEMA, table="/tables/orders")
    second = parse("s = 'ann@example.com'", SCHEMA, table="/tables/orders", label="of a person")
    both = conjoin(first, second)
    assert both is not None
    assert (both.table, both.text) == ("/tables/orders", "(x > 1) AND (of a person)")
    assert "ann" not in repr(both)


def test_a_conjunction_without_labels_shows_its_sql() -> None:
    both = conjoin(parse("x > 1", SCHEMA), parse("s = 'a'", SCHEMA))
    assert both is not None
    assert (both.label, both.text) == (None, "(x > 1) AND (s = 'a')")
