"""Conditions and values in SQL: parsed once into nodes, which are evaluated on Arrow or rendered for Spark."""

from lakehouse_lib.expressions.evaluate_arrow import matches, values_of
from lakehouse_lib.expressions.parsing.parser import (
    check_generation,
    from_filters,
    parse,
    parse_value,
    predicate_of,
    value_of,
)
from lakehouse_lib.expressions.predicate import EVERY_ROW, Predicate, conjoin, to_spark_sql
from lakehouse_lib.expressions.predicate_rule import PredicateRule
from lakehouse_lib.expressions.value import Value
from lakehouse_lib.expressions.value_rule import ValueRule

__all__ = [
    "EVERY_ROW",
    "Predicate",
    "PredicateRule",
    "Value",
    "ValueRule",
    "check_generation",
    "conjoin",
    "from_filters",
    "matches",
    "parse",
    "parse_value",
    "predicate_of",
    "to_spark_sql",
    "value_of",
    "values_of",
]
