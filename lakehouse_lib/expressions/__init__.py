"""Conditions on rows: SQL parsed once into an intermediate representation, evaluated on Arrow, rendered for Spark."""

from lakehouse_lib.expressions.evaluate_arrow import matches, to_arrow
from lakehouse_lib.expressions.parsing.parser import from_filters, parse
from lakehouse_lib.expressions.predicate import Predicate, to_spark_sql

__all__ = [
    "Predicate",
    "from_filters",
    "matches",
    "parse",
    "to_arrow",
    "to_spark_sql",
]
