"""What is no predicate is refused with its reason and the way out."""

from __future__ import annotations

import pytest

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.predicates import parse
from lakehouse_lib.schema import Field, Schema, StructType

SCHEMA = Schema(
    [
        Field("x", "long"),
        Field("customer_id", "long"),
        Field("s", "string"),
        Field("d", "date"),
        Field("b", "boolean"),
        Field("st", StructType([Field("q", "long")])),
    ]
)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "nothing to evaluate"),
        ("x =", "syntax error"),
        ("x = 1; DROP TABLE y", "syntax error"),
        ("x = 1 GROUP BY y", "syntax error near 'GROUP BY'"),
        ("x AS y", "syntax error"),
        ("nope = 1", "no column 'nope'.*columns are x, customer_id"),
        ("custmer_id = 1", "no column 'custmer_id'.*Did you mean customer_id"),
        ("st.z = 1", "no column 'st.z'.*st.q"),
        ("x.y = 1", "'x' is of type long, which has no members"),
        ("s = 5", "column 's' of type string is compared with the number 5"),
        ("x = 'a'", "column 'x' of type long is compared with the string 'a'"),
        ("x IN (1, 'a')", "compared with the string 'a'"),
        ("d = '1995-02-30'", "compared with the string '1995-02-30'"),
        ("d = DATE '1995-02-30'", "'1995-02-30' is no date"),
        ("d = 5", "compared with the number 5"),
        ("b = 1", "compared with the number 1"),
        ("x = s", "compared with column 's'"),
        ("st = 1", "cannot be compared"),
        ("x", "is no condition"),
        ("x + 1", "is no condition"),
        ("NOT s", "is no condition"),
        ("1", "is no condition"),
        ("sum(x) > 1", "not decided by one row"),
        ("x IN (SELECT 1)", "not decided by one row"),
        ("EXISTS (SELECT 1)", "not decided by one row"),
        ("row_number() OVER () > 1", "not decided by one row"),
        ("x = ?", "not decided by one row"),
        ("x = 'it''s'", "side by side"),
        ("x LIKE 'a'", "column 'x' of type long is matched with LIKE"),
        ("s LIKE 'a\\\\b'", "escapes nothing"),
        ("x = " + "(" * 5000 + "1" + ")" * 5000, "syntax error|nested too deep"),
    ],
)
def test_refused(sql, reason):
    with pytest.raises(InvalidPredicateError, match=reason) as raised:
        parse(sql, SCHEMA, table="/tables/orders")
    assert raised.value.table == "/tables/orders"
    assert raised.value.hint
    assert repr(sql[:20])[:-1] in str(raised.value)
