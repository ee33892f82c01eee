"""Conditions and values in SQL: parsed once into nodes, which are evaluated on Arrow or rendered for Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakehouse_lib.lazy_names import import_on_use

if TYPE_CHECKING:
    from lakehouse_lib.expressions.evaluate_arrow import matches as matches
    from lakehouse_lib.expressions.evaluate_arrow import values_of as values_of
    from lakehouse_lib.expressions.members import with_members as with_members
    from lakehouse_lib.expressions.parsing.parser import check_generation as check_generation
    from lakehouse_lib.expressions.parsing.parser import from_filters as from_filters
    from lakehouse_lib.expressions.parsing.parser import parse as parse
    from lakehouse_lib.expressions.parsing.parser import parse_value as parse_value
    from lakehouse_lib.expressions.parsing.parser import predicate_of as predicate_of
    from lakehouse_lib.expressions.parsing.parser import value_of as value_of
    from lakehouse_lib.expressions.predicate import EVERY_ROW as EVERY_ROW
    from lakehouse_lib.expressions.predicate import Predicate as Predicate
    from lakehouse_lib.expressions.predicate import conjoin as conjoin
    from lakehouse_lib.expressions.predicate import to_spark_sql as to_spark_sql
    from lakehouse_lib.expressions.predicate_rule import PredicateRule as PredicateRule
    from lakehouse_lib.expressions.value import Value as Value
    from lakehouse_lib.expressions.value_rule import ValueRule as ValueRule

#: The module of each name, below this package.
_MODULES = {
    "EVERY_ROW": "predicate",
    "Predicate": "predicate",
    "PredicateRule": "predicate_rule",
    "Value": "value",
    "ValueRule": "value_rule",
    "check_generation": "parsing.parser",
    "conjoin": "predicate",
    "from_filters": "parsing.parser",
    "matches": "evaluate_arrow",
    "parse": "parsing.parser",
    "parse_value": "parsing.parser",
    "predicate_of": "parsing.parser",
    "to_spark_sql": "predicate",
    "value_of": "parsing.parser",
    "values_of": "evaluate_arrow",
    "with_members": "members",
}

__all__ = [*_MODULES]

if not TYPE_CHECKING:  # with a __getattr__, mypy would accept every name
    __getattr__ = import_on_use(__name__, _MODULES)
