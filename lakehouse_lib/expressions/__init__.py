"""Conditions on rows: SQL parsed once into an intermediate representation, evaluated on Arrow, rendered for Spark."""

from lakehouse_lib.expressions.evaluate_arrow import matches
from lakehouse_lib.expressions.parsing.parser import from_filters, parse, predicate_of
from lakehouse_lib.expressions.predicate import Predicate, conjoin, to_spark_sql

__all__ = [
    "Predicate",
    "conjoin",
    "from_filters",
    "matches",
    "parse",
    "predicate_of",
    "to_spark_sql",
]
