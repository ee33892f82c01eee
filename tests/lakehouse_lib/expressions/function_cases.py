"""Expressions with functions, and tables of generated rows on which tests evaluate them."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from lakehouse_lib.expressions.kernels.text import NEW_PAIRS

VALUES, ROWS = 12, 300
#: Letters whose upper case or lower case has several letters, or depends on the letters around it.
LETTERS = "aZßŉǰΐΣσςİıÄéſﬁǅᾳ 'Ж日\U0001f600\u0301%_1\n"
TEXTS = st.text(LETTERS, max_size=8) | st.text(max_size=5).filter(lambda text: not re.search(f"[{NEW_PAIRS}]", text))
DOUBLES = st.floats(allow_nan=True) | st.sampled_from([0.5, -0.5, 2.5, 2.675, -2.675, 1.005, 1e16, -0.0, 1e-300, 4.35])


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**precision) + 1, 10**precision - 1).map(lambda number: Decimal(number).scaleb(-scale))


COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "k": (pa.int8(), st.integers(-127, 127)),
    "i": (pa.int32(), st.integers(-(2**31) + 1, 2**31 - 1)),
    "j": (pa.int32(), st.integers(-3, 3)),
    "l": (pa.int64(), st.integers(-(2**63) + 1, 2**63 - 1)),
    "m": (pa.int64(), st.integers(-200, 200)),
    "h": (pa.float32(), st.floats(width=32)),
    "f": (pa.float64(), DOUBLES),
    "g": (pa.float64(), DOUBLES),
    "b": (pa.float64(), st.floats(-1e15, 1e15)),
    "c": (pa.decimal128(5, 2), decimals(5, 2)),
    "r": (pa.decimal128(6, 6), decimals(6, 6)),
    "e": (pa.decimal128(10, 2), decimals(10, 2)),
    "w": (pa.decimal128(20, 6), decimals(20, 6)),
    "s": (pa.string(), TEXTS),
    "t": (pa.string(), TEXTS),
    "o": (pa.bool_(), st.booleans()),
    "d": (pa.date32(), st.dates(dt.date(1600, 1, 1), dt.date(9000, 1, 1))),
    "p": (pa.timestamp("us", "UTC"), st.datetimes(dt.datetime(1600, 1, 1), dt.datetime(9000, 1, 1))),
    "n": (pa.timestamp("us"), st.datetimes(dt.datetime(1600, 1, 1), dt.datetime(9000, 1, 1))),
    "a": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(-9, 9), min_size=2, max_size=4)),
    "q": (pa.map_(pa.string(), pa.int64()), st.dictionaries(st.sampled_from("xy"), st.none() | st.integers(-9, 9))),
}

#: Separated by semicolons.
SQL = """
    upper(s); lower(s); upper(s) = upper('a1'); m > 2 * 30 - 5;
    s ILIKE 'a%'; s NOT ILIKE '%ß_'; s ILIKE '%Σ%'; ilike(s, '_'); length(upper(s));
    substring(s, 2); substring(s, -3, 2); substring(s, -2); substr(s, 0, 2); right(s, 3); substring(s, -3, 7);
    left(s, 0); right(s, 0); concat(s, i, d); s || l; trim(s) || upper(t); abs(k); abs(l); abs(f); abs(h); abs(c);
    abs(m - j); greatest(i, j); greatest(k, 0); least(i, l, 5); greatest(f, g); least(f, g); greatest(h, f);
    least(h, j); greatest(h, 0.1); least(c, 1); greatest(c, w); least(c, i); greatest(l, f); greatest(s, t);
    least(s, 'm'); greatest(d, DATE '2024-01-01'); least(p, NULL); greatest(o, false); greatest(i, 1.5);
    least(c, 1.555); greatest(j, NULL, k); least(n, n); round(f, 2); round(f); round(h, 1); round(b, 3);
    round(c, 1); round(c); round(c, 5); round(w, 3); round(i); round(m, -1); round(j, -1); round(j, 2); floor(b);
    ceil(b); floor(c); ceiling(w); floor(i); floor(k); ceil(l); round(m * 0.5); floor(m / 7); i / nullif(j, 0);
    l / 7; m / 3; 100 / nullif(m, 0); f / nullif(g, 0); h / nullif(h, 0); h / 2; c / 3; c / nullif(i, 0);
    e / nullif(c, 0); w / nullif(m, 0); m / nullif(c, 0); c / 0.7; 1 / nullif(c, 0); w / nullif(e, 0); j / 1.50;
    l % nullif(m, 0); i % 7; mod(k, 5); l DIV nullif(m, 0); j DIV 2; c / nullif(abs(c), 0); (c + 1) / 4; f / 2.5;
    i / 2.0; if(o, i, 1); if(o, k, l); if(j > 0, s, 'none'); nullif(j, 0) + 1; CASE WHEN o THEN c ELSE 1 END + j;
    coalesce(i, l); coalesce(h, 0.1); coalesce(h, 1); coalesce(c, w, 0); ifnull(k, 0); nvl(s, t); nvl(f, h);
    if(j <> 0, m / j, 0); nvl2(s, j, 2) * 3; CASE j WHEN 1 THEN 'x' WHEN 2 THEN s END || '!'; coalesce(j, 1) + 2;
    j <> 0 AND 6 / j > 2; j = 0 OR 6 / j > 2; NOT (j = 0 OR 6 / j > 2); abs(j) > 1 AND upper(s) <= 'M';
    CAST(j AS DOUBLE); CAST(l AS DOUBLE); CAST(l AS FLOAT); CAST(c AS DOUBLE); CAST(m AS DECIMAL(10,3));
    CAST(b AS BIGINT); CAST(c AS INT); CAST(w AS DECIMAL(20,2)); CAST(m AS INT); CAST(f AS FLOAT);
    date_trunc('year', p); date_trunc('QUARTER', p); date_trunc('month', p); date_trunc('week', p);
    date_trunc('DD', p); date_trunc('hour', p); date_trunc('minute', p); date_trunc('second', p); trunc(d, 'year');
    trunc(d, 'QUARTER'); trunc(d, 'MM'); trunc(d, 'week'); trunc(p, 'month'); hour(p); minute(p); second(p);
    hour(n); minute(n); second(n); extract(HOUR FROM p); quarter(d); date_add(d, 1); date_sub(d, j);
    date_add(d, k); date_add(p, 3); d + 1; d - j; date_sub(n, 40); datediff(d, p); datediff(n, d);
    datediff(DATE '2024-01-31', d); add_months(d, 1); add_months(d, -13); add_months(p, j); last_day(d);
    last_day(p); p + INTERVAL '1' DAY; p - INTERVAL 36 HOURS; n + INTERVAL 90 SECONDS; p + INTERVAL '1' MONTH;
    n - INTERVAL 1 YEAR; p - INTERVAL 1 DAY 2 HOURS; INTERVAL '1' DAY + p; p + INTERVAL '2 weeks';
    d + INTERVAL '1' DAY; d - INTERVAL 2 MONTHS; d + INTERVAL 1 YEAR; n + INTERVAL '7' MONTH; CAST(d AS TIMESTAMP);
    i + 0.0; l * 10.0; k - 2.00; (m - 1.0) / 3; j * 1.0 / 3; j * 1.00 / nullif(k, 0); abs(j * -1.0) / 3;
    coalesce(j * 1.0, 0) / 3; m * 100.0 - 1;
    coalesce(TRY_CAST(300 AS TINYINT), j); j * CAST(2 AS DECIMAL(2,1)); if(o, CAST(1 AS DECIMAL(3,1)), c); j * 2L / 3;
    -c / 3; -w / nullif(e, 0); -f; -h; -k; -(h + h); -m * -1.0; negative(j) + 1; date_add(d, -j);
    CAST(r AS INT); round(r, 3); floor(r); r / 3; -r; r + 1; CAST(r AS DECIMAL(3,1)); upper(nullif('a', s));
    a[1]; a[0] + 1; q['x']; coalesce(q['y'], a[0], 0)
"""
EXPRESSIONS = [expression.strip() for expression in SQL.split(";")]


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Rows with random combinations of some values for each column."""
    choose = np.random.default_rng(draw(st.integers(0, 2**32)))
    columns = {}
    for name, (kind, values) in COLUMNS.items():
        naive = pa.timestamp("us") if pa.types.is_timestamp(kind) else kind
        listed = pa.array([None, *draw(st.lists(values, min_size=VALUES, max_size=VALUES))], naive).cast(kind)
        columns[name] = listed.take(pa.array(choose.integers(0, len(listed), ROWS)))
    return pa.table(columns)
