"""What has come since the look that was approved: keys are taken from predicates, and compared."""

from typing import Any

import pytest

from lakehouse_airflow.arrivals import arrived, has_gone, keys


def place(predicate: str, rows: int = 1) -> dict[str, Any]:
    return {"predicate": predicate, "rows": rows, "on_disk": {"rows": rows}}


def ways(*combinations: tuple[str, ...]) -> set[frozenset[str]]:
    return {frozenset(combination) for combination in combinations}


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        ("FALSE", ways()),
        ("`k` = -7", ways(("k = -7",))),
        ("`k` IN (1, 2)", ways(("k = 1",), ("k = 2",))),
        (r"(FALSE) OR (`k` = 'it\'s') OR (`a b` IN ('x'))", ways(("k = 'it''s'",), ("a b = 'x'",))),
        (
            "((`_file` = 'f' AND `_line` IN (2, 3)) OR (`_file` = 'g' AND `_line` = 4))",
            ways(("_file = 'f'", "_line = 2"), ("_file = 'f'", "_line = 3"), ("_file = 'g'", "_line = 4")),
        ),
        (
            "(`_file` = 'f' AND (`_line` BETWEEN 2 AND 3 OR `_line` = 5))",
            ways(("_file = 'f'", "_line = 2"), ("_file = 'f'", "_line = 3"), ("_file = 'f'", "_line = 5")),
        ),
        ("`k` > 7", ways(("k > 7",))),
    ],
)
def test_keys_of_a_predicate(predicate: str, expected: set[frozenset[str]]) -> None:
    found = keys(predicate)
    assert {frozenset(each.replace('"', "") for each in one) for one in found} == expected


def test_thousands_of_keys_are_compared() -> None:
    some, more = (f"`k` IN ({', '.join(map(str, range(count)))})" for count in (20_000, 20_001))
    assert arrived({"t": place(some)}, {"t": place(more)}) == ["t"]
    assert arrived({"t": place(more)}, {"t": place(some)}) == []


@pytest.mark.parametrize(
    ("then", "now", "expected"),
    [
        (place("`k` = 1"), place("`k` = 1", rows=9), []),
        (place("`k` IN (1, 2)"), place("`k` = 1", rows=0), []),
        (place("`k` = 1"), place("FALSE", rows=0), []),
        (place("`k` = 1"), place("`k` IN (1, 2)"), ["t"]),
        (place("FALSE", rows=0), place("`k` = 1", rows=0), ["t"]),
        (place("`k` = 1", rows=0), place("`k` = 1"), ["t"]),
        ({**place("`k` = 1", rows=0), "on_disk": {"rows": 3}}, place("`k` = 1"), []),
        (None, place("`k` = 1"), ["t"]),
        (None, place("`k` = 1", rows=0), []),
    ],
)
def test_what_has_arrived(then: dict[str, Any] | None, now: dict[str, Any], expected: list[str]) -> None:
    assert arrived({"t": then} if then else {}, {"t": now}) == expected


def test_a_key_that_leads_nowhere_any_more_has_gone() -> None:
    then = {"t": place("`k` IN (1, 2)"), "own": place("`id` = 7")}
    assert not has_gone(then, {"t": place("`k` IN (1, 2, 3)"), "own": place("`id` = 7", rows=0)})
    assert has_gone(then, {"t": place("`k` IN (2, 3)"), "own": place("`id` = 7")})
    assert has_gone(then, {"own": place("`id` = 7")})
