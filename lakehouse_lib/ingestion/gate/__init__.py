"""The gate on Arrow: rules of a quality suite, translated once into functions of record batches."""

from lakehouse_lib.ingestion.gate.judgement import Judgement, RuleCounts, broken_rules, judge, violations
from lakehouse_lib.ingestion.gate.key_rule import KeyRule
from lakehouse_lib.ingestion.gate.row_rule import RowRule
from lakehouse_lib.ingestion.gate.table_rule import TableRule
from lakehouse_lib.ingestion.gate.translation import Translation, UntranslatedRule, translate

__all__ = [
    "Judgement",
    "KeyRule",
    "RowRule",
    "RuleCounts",
    "TableRule",
    "Translation",
    "UntranslatedRule",
    "broken_rules",
    "judge",
    "translate",
    "violations",
]
