"""Random expectations, most of which are valid and translated."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

from lakehouse_lib.engine.quality import Rule
from lakehouse_lib.ingestion.quality import read_rules
from tests.gate.random_rows import COLUMNS, NESTED

_NUMBERS = ["i8", "i16", "i32", "i64", "j64", "money", "price", "exact", "huge", "small", "f32", "f64", "g64"]
_TIMES = ["day", "end day", "at", "until", "clock"]
_TEXTS = ["text", "name"]
_PATTERNS = [
    "", "a", "^a", "a$", "^a$", "^a|b$", "a$|b", "^$", "^.$", "^..$", ".", "^.*$", "^.+$", "^[a-z]+$", "^[^a]+$",
    "[^\\n]$", "^\\s*$", "\\s",
    "\\S", "^\\S+$", "\\d", "^\\d+$", "\\D", "^\\w+$", "\\W", "[\\d.]", "[\\w.-]", "[a-]", "[-a]", "\\.",
    "^\\d{4}-\\d{2}-\\d{2}$",
    "^[A-Z0-9._%+-]+@[a-z.]+\\.org$", "^(a|b)+$", "^(?:ab?c?)$", "(a+)+$", "a{2,}", "^a{1,3}$", "a??b", "^(a*)*$",
    "é", "[é-ü]", "^😀$", "😀|ß", "\\\\",
    "\\t", "\\x00", "\\n", "\\r", "\\r$", "[\\r\\n]+$", "\\$", "[$^]", "_", "%", " ", "x@y", "^-?\\d+(\\.\\d+)?$",
    "\\[", "\\]", "]", "[^\\s]", "[^\\d]$",
    "(?i)a", "(?i)^[a-k]+$", "(?i)[^i-k]", "(?i)É|ß$", "(?i)[A-a]", "(?i)null|nan",
    # Not translated:
    "\\b", "(?s)a", "(?=a)", "a++", "\\p{L}", "(?<n>a)", "(a$)", "[a&&b]", "[a[b]]", "\\Qa\\E", "\\1", "\\h", "\\R",
    "a{1001}", "\\z", "\\A", "\\uFFFF",
]  # fmt: skip
_PIECES = ["a", "b", "[ab]", "[^a]", ".", "\\d", "\\s", "\\S", "(a|b)", "(?:ab)", "\\.", "1", "-", "é", "\\w", "[^\\s]"]
_FORMATS = ["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%d", "%H", "%Y", "%%", "a", "%j"]


def random_rule(random: Random, identity: str) -> Rule:
    """A rule; some rules are not valid."""
    kind, arguments = random.choice(_KINDS)(random)
    if random.random() < 0.3:
        arguments["mostly"] = random.choice([0, 0.25, 0.5, 0.75, 0.9, 1, 1.0])
    if random.random() < 0.3:
        arguments |= _row_condition(random)
    return _rule(kind, arguments, identity)


def _rule(kind: str, arguments: dict[str, Any], identity: str) -> Rule:
    suite = {"expectations": [{"type": kind, "kwargs": arguments, "meta": {"rule_id": identity}}]}
    return read_rules(suite, list(COLUMNS))[0]


def json_value(value: Any, random: Random) -> Any:
    """A value of a column as a suite has it."""
    match value:
        case Decimal():
            return random.choice([float(value), int(value)])
        case dt.datetime():
            return value.replace(tzinfo=None).isoformat(sep=random.choice(" T"))
        case dt.date():
            return value.isoformat()
        case float() if value != value or value in (float("inf"), float("-inf")):
            return random.choice([0.0, 1.5])
        case bytes() | list() | dict():
            return "a"
    return value


def _value(random: Random, column: str) -> Any:
    value = json_value(random.choice(COLUMNS[column][1]), random)
    if isinstance(value, int | float) and not isinstance(value, bool) and random.random() < 0.3:
        return value + random.choice([0.5, -1, 1, 0.1])
    return value


def _bounds(random: Random, column: str) -> dict[str, Any]:
    ends = [_value(random, column), _value(random, column)]
    if random.random() < 0.2:
        ends[1] = ends[0]
    if column in ("at", "until", "clock"):
        ends = [random.choice(["2024-01-01", "1970-01-01", "2023-12-31"]) for _ in ends]
        if random.random() < 0.6:
            zone = random.choice(["", "", "Z", "+02:00", "-05:30"])
            ends = [_value(random, column) + zone for _ in ends]
    ends.sort()
    bounds = {"min_value": ends[0], "max_value": ends[1]}
    if random.random() < 0.5:
        del bounds[random.choice(list(bounds))]
    for flag in ("strict_min", "strict_max"):
        if random.random() < 0.3:
            bounds[flag] = True
    return bounds


def _nulls(random: Random) -> tuple[str, dict[str, Any]]:
    name = random.choice(["expect_column_values_to_not_be_null", "expect_column_values_to_be_null"])
    return name, {"column": random.choice(list(COLUMNS))}


def _between(random: Random) -> tuple[str, dict[str, Any]]:
    column = random.choice([*_NUMBERS, *_TIMES])
    return "expect_column_values_to_be_between", {"column": column, **_bounds(random, column)}


def _sets(random: Random) -> tuple[str, dict[str, Any]]:
    name = random.choice(["expect_column_values_to_be_in_set", "expect_column_values_to_not_be_in_set"])
    column = random.choice([*_NUMBERS, *_TIMES, *_TEXTS, "flag", "sold"])
    values = [_value(random, column) for _ in range(random.choice([0, 1, 2, 3, 15]))]
    if random.random() < 0.1:
        values.append(None)
    return name, {"column": column, "value_set": values}


def _pattern(random: Random) -> str:
    if random.random() < 0.7:
        return random.choice(_PATTERNS)
    pieces = [
        random.choice(_PIECES) + random.choice(["", "", "*", "+", "?", "{2}", "*?"])
        for _ in range(random.randint(1, 4))
    ]
    return random.choice(["", "^"]) + "".join(pieces) + random.choice(["", "$", "$", "|b"])


def _patterns(random: Random) -> tuple[str, dict[str, Any]]:
    negation = random.choice(["", "not_"])
    column = random.choice(_TEXTS)
    if random.random() < 0.7:
        return f"expect_column_values_to_{negation}match_regex", {"column": column, "regex": _pattern(random)}
    arguments: dict[str, Any] = {
        "column": column,
        "regex_list": [_pattern(random) for _ in range(random.randint(1, 3))],
    }
    if not negation and random.random() < 0.6:
        arguments["match_on"] = random.choice(["any", "all"])
    return f"expect_column_values_to_{negation}match_regex_list", arguments


def _lengths(random: Random) -> tuple[str, dict[str, Any]]:
    column = random.choice([*_TEXTS, "raw"])
    if random.random() < 0.3:
        return "expect_column_value_lengths_to_equal", {"column": column, "value": random.choice([0, 1, 2, 2.0, 1.5])}
    ends = sorted(random.randint(0, 5) for _ in range(2))
    arguments: dict[str, Any] = {"column": column, "min_value": ends[0], "max_value": ends[1]}
    if random.random() < 0.4:
        del arguments[random.choice(["min_value", "max_value"])]
    if random.random() < 0.3:
        arguments[random.choice(["strict_min", "strict_max"])] = True
    return "expect_column_value_lengths_to_be_between", arguments


def _parsed(random: Random) -> tuple[str, dict[str, Any]]:
    column = random.choice(_TEXTS)
    if random.random() < 0.5:
        return "expect_column_values_to_be_json_parseable", {"column": column}
    return "expect_column_values_to_match_strftime_format", {
        "column": column,
        "strftime_format": random.choice(_FORMATS),
    }


def _pairs(random: Random) -> tuple[str, dict[str, Any]]:
    family = random.choice([_NUMBERS, _NUMBERS, ["f64", "g64", "f32"], _TIMES, _TEXTS, ["flag", "sold"]])
    left, right = random.choice(family), random.choice(family)
    arguments: dict[str, Any] = {"column_A": left, "column_B": right}
    if random.random() < 0.6:
        arguments["ignore_row_if"] = random.choice(["both_values_are_missing", "either_value_is_missing", "neither"])
    choice = random.random()
    if choice < 0.4:
        if random.random() < 0.6:
            arguments["or_equal"] = random.choice([True, False])
        return "expect_column_pair_values_a_to_be_greater_than_b", arguments
    if choice < 0.7:
        return "expect_column_pair_values_to_be_equal", arguments
    pairs = [
        [None if random.random() < 0.2 else _value(random, column) for column in (left, right)]
        for _ in range(random.randint(1, 3))
    ]
    return "expect_column_pair_values_to_be_in_set", {**arguments, "value_pairs_set": pairs}


def _several(random: Random) -> tuple[str, dict[str, Any]]:
    families = [
        ["i8", "i16", "i32", "i64", "j64"],
        ["f64", "g64"],
        ["money", "price", "small"],
        _NUMBERS,
        _TIMES,
        _TEXTS,
    ]
    family = random.choice(families)
    arguments: dict[str, Any] = {"column_list": random.sample(family, random.randint(2, min(3, len(family))))}
    if random.random() < 0.6:
        arguments["ignore_row_if"] = random.choice(["all_values_are_missing", "any_value_is_missing", "never"])
    if random.random() < 0.4:
        return "expect_multicolumn_sum_to_equal", {
            **arguments,
            "sum_total": random.choice([0, 1, 2, 3.0, 0.3, 10, 0.4]),
        }
    names = ["expect_multicolumn_values_to_be_equal", "expect_select_column_values_to_be_unique_within_record"]
    return random.choice(names), arguments


def _row_condition(random: Random) -> dict[str, Any]:
    choice = random.random()
    if choice < 0.6:
        return {"row_condition": _condition(random)}
    column = random.choice([*_NUMBERS, *_TEXTS, "day"])
    if choice < 0.8:
        value = _value(random, column)
        text = f'"{value}"' if isinstance(value, str) else str(value)
        operator = random.choice(["==", "!=", "<", "<=", ">", ">="])
        condition = random.choice(
            [f'col("{column}") {operator} {text}', f'col("{column}"){operator}{text}', f'col("{column}").notNull()']
        )
        parser = random.choice(["great_expectations", "great_expectations__experimental__"])
        return {"row_condition": condition, "condition_parser": parser}
    conditions = [
        "i64 > 2", "i32 = 1 OR text = 'a'", "text LIKE 'a%'", "NOT flag", "text IS NULL", "day >= '2024-01-01'",
        "money < 1.5", "f64 > 0.1",
        "name IN ('a', 'b') AND i8 <> 0", "length(text) > 1", "f64 = 'NaN'", "price BETWEEN 1 AND 5", "exact = 0.1",
        "flag = true",
    ]  # fmt: skip
    if random.random() < 0.6:
        conditions = [_sql(random)]
    return {"row_condition": random.choice(conditions), "condition_parser": "spark"}


def _sql(random: Random) -> str:
    """A comparison of a column with literals that often are of another type."""
    column = random.choice([*_NUMBERS, *_TIMES, *_TEXTS, "flag"])
    values = [_value(random, random.choice([column, column, *_NUMBERS, "day"])) for _ in range(2)]
    first, second = (f"'{value}'" if isinstance(value, str) and "'" not in value else str(value) for value in values)
    name = f"`{column}`"
    operator = random.choice(["=", "<>", "<", "<=", ">", ">=", "<=>"])
    return random.choice(
        [
            f"{name} {operator} {first}",
            f"NOT {name} {operator} {first}",
            f"{name} IN ({first}, {second})",
            f"{name} NOT IN ({first}, NULL)",
            f"{name} BETWEEN {first} AND {second} OR i8 IS NULL",
            f"{name} {operator} {first} AND f64 > 0",
        ]
    )


def _condition(random: Random, depth: int = 0) -> dict[str, Any]:
    if depth < 2 and random.random() < 0.3:
        parts = [_condition(random, depth + 1) for _ in range(random.randint(1, 3))]
        return {"type": random.choice(["and", "or"]), "conditions": parts}
    column = random.choice([*_NUMBERS, *_TIMES, *_TEXTS, "flag"])
    if random.random() < 0.25:
        return {"type": "nullity", "column": {"name": column}, "is_null": random.choice([True, False])}
    operator = random.choice(["==", "!=", "<", "<=", ">", ">=", "IN", "NOT_IN"])
    value = (
        [_value(random, column) for _ in range(random.randint(1, 3))]
        if operator.endswith("IN")
        else _value(random, column)
    )
    return {"type": "comparison", "column": {"name": column}, "operator": operator, "parameter": value}


_KINDS: list[Callable[[Random], tuple[str, dict[str, Any]]]] = [
    _nulls, _between, _between, _sets, _sets, _patterns, _patterns, _lengths, _parsed, _pairs, _pairs, _several,
    _several,
]  # fmt: skip


def random_table_rule(random: Random, identity: str) -> Rule:
    """A rule about the batch as a whole; some rules are not valid."""
    kind, arguments = random.choice(_TABLE_KINDS)(random)
    if random.random() < 0.3 and not kind.endswith(("_type", "_type_list")) and "table_column" not in kind:
        arguments |= _row_condition(random)
    return _rule(kind, arguments, identity)


def _row_counts(random: Random) -> tuple[str, dict[str, Any]]:
    if random.random() < 0.3:
        return "expect_table_row_count_to_equal", {"value": random.choice([0, 1, 40])}
    return "expect_table_row_count_to_be_between", _ends(random, [0, 1, 5, 39, 40, 41])


def _shares(random: Random) -> tuple[str, dict[str, Any]]:
    name = "expect_column_proportion_of_non_null_values_to_be_between"
    return name, {"column": random.choice(list(COLUMNS)), **_ends(random, [0, 0.25, 0.5, 0.9, 1, 1.0])}


def _aggregates(random: Random) -> tuple[str, dict[str, Any]]:
    aggregate = random.choice(["min", "max", "sum", "mean"])
    column = random.choice([*_NUMBERS, "day"] if aggregate in ("min", "max") else _NUMBERS)
    return f"expect_column_{aggregate}_to_be_between", {"column": column, **_bounds(random, column)}


def _distinct_sets(random: Random) -> tuple[str, dict[str, Any]]:
    column = random.choice([*_NUMBERS, *_TIMES, *_TEXTS, "flag"])
    if random.random() < 0.5:
        pool = [json_value(value, random) for value in COLUMNS[column][1]]
        values = [value for value in pool if not isinstance(value, int) or random.random() < 0.9]
    else:
        values = [_value(random, column) for _ in range(random.randint(0, 4))]
    return random.choice(_DISTINCT_SETS), {"column": column, "value_set": values}


def _distinct_counts(random: Random) -> tuple[str, dict[str, Any]]:
    name = "expect_column_unique_value_count_to_be_between"
    return name, {"column": random.choice(list(COLUMNS)), **_ends(random, [0, 1, 2, 5, 8, 20_000])}


def _types(random: Random) -> tuple[str, dict[str, Any]]:
    column = random.choice(list(COLUMNS))
    names = [random.choice(_SPARK_TYPES) for _ in range(random.randint(1, 3))]
    if random.random() < 0.5:
        return "expect_column_values_to_be_of_type", {"column": column, "type_": names[0]}
    return "expect_column_values_to_be_in_type_list", {"column": column, "type_list": names}


def _columns(random: Random) -> tuple[str, dict[str, Any]]:
    flat = [name for name in COLUMNS if name not in NESTED]
    names = flat[: random.choice([1, len(flat), len(flat)])]
    if random.random() < 0.3:
        random.shuffle(names)
    return random.choice(
        [
            ("expect_column_to_exist", {"column": names[0]}),
            ("expect_table_column_count_to_equal", {"value": random.choice([1, len(flat)])}),
            ("expect_table_column_count_to_be_between", {"min_value": random.choice([1, 100]), "max_value": 100}),
            ("expect_table_columns_to_match_ordered_list", {"column_list": names}),
            ("expect_table_columns_to_match_set", {"column_set": [*names, *random.choice([[], ["other"]])]}),
            ("expect_table_columns_to_match_set", {"column_set": names, "exact_match": random.choice([True, False])}),
        ]
    )


def _ends(random: Random, values: list[Any]) -> dict[str, Any]:
    low, high = sorted(random.choice(values) for _ in range(2))
    ends = random.choice([{"min_value": low, "max_value": high}, {"min_value": low}, {"max_value": high}])
    return ends | ({random.choice(["strict_min", "strict_max"]): True} if random.random() < 0.3 else {})


_DISTINCT_SETS = [f"expect_column_distinct_values_to_{verb}_set" for verb in ("be_in", "contain", "equal")]
_SPARK_TYPES = [
    "ByteType", "ShortType", "IntegerType", "LongType", "IntegralType", "FloatType", "DoubleType", "DecimalType",
    "StringType", "BinaryType",
    "BooleanType", "DateType", "TimestampType", "TimestampNTZType", "ArrayType", "StructType", "NumericType", "NoType",
]  # fmt: skip
_TABLE_KINDS: list[Callable[[Random], tuple[str, dict[str, Any]]]] = [
    _row_counts, _shares, _aggregates, _aggregates, _aggregates, _distinct_sets, _distinct_counts, _types, _columns,
]  # fmt: skip
