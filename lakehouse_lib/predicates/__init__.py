"""Conditions on rows: one parse, and renderings for pruning files, for Arrow and for Spark."""

from lakehouse_lib.predicates.arrow import matches, to_arrow
from lakehouse_lib.predicates.parser import from_filters, parse
from lakehouse_lib.predicates.predicate import Predicate, to_spark_sql
from lakehouse_lib.predicates.pruning import evaluate_partitions, may_match

__all__ = [
    "Predicate",
    "evaluate_partitions",
    "from_filters",
    "matches",
    "may_match",
    "parse",
    "to_arrow",
    "to_spark_sql",
]
