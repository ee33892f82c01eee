"""The quality gate: checks a batch with a Great Expectations suite before it is committed.

Rows that break a rule about single rows (a map expectation, or uniqueness) go to quarantine. A broken rule about the
whole batch (row count, a mean, ...) stops the load. Great Expectations gives the condition of each row rule: once, or
for each batch if the condition depends on the batch (a z-score needs the mean). Spark evaluates the conditions of all
row rules in one pass over a batch. The validation of Great Expectations would take a second or more for each batch.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from lakehouse_lib.engine.quality import Rule, Verdict, is_rule_broken
from lakehouse_lib.errors import QualityError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

VIOLATIONS = "__violations"

#: A condition that depends only on these metrics is the same for every batch. The row count is one of them, because
#: Great Expectations lists it for every condition.
_FIXED_METRICS = {"table.columns", "table.column_types", "table.row_count"}


@dataclass(frozen=True)
class _RowRule:
    rule: Rule
    mostly: float
    applies: Column | None  # None: the rule applies to every row
    breaks: Column


class Gate:
    """The rules of a suite, prepared for batches of one schema.

    Raises:
        QualityError: a rule is an unknown expectation, or cannot be evaluated on Spark on rows of this schema.
    """

    def __init__(self, spark: SparkSession, rules: Sequence[Rule], rows: DataFrame, columns: Sequence[str]) -> None:
        """Prepare the conditions of the rules.

        Args:
            rows: a DataFrame with the schema; its rows are not read.
            columns: the columns that rules may check.
        """
        import great_expectations as gx  # takes 2-3 s and 160 MB, so it is imported only if there is a suite

        _quieten()
        self._context = gx.get_context(mode="ephemeral")
        self._context.variables.progress_bars = {"globally": False}
        self._batches = 0
        self._columns = tuple(columns)
        batch = self._batch(spark.createDataFrame([], rows.schema))
        validator = self._validator(batch)
        self._table_rules: list[tuple[Rule, Any]] = []
        self._fixed: list[_RowRule] = []
        self._depends_on_batch: list[tuple[Rule, Any]] = []
        for rule in rules:
            expectation = _expectation(rule)
            if not getattr(expectation, "map_metric", None):
                self._table_rules.append((rule, expectation))
            elif _is_fixed(expectation, validator):
                self._fixed.append(_row_rule(rule, expectation, validator))
            else:
                self._depends_on_batch.append((rule, expectation))
        with _as_quality_error("the quality suite cannot be evaluated on rows of this schema"):
            # Spark analyses the conditions, so an invalid one (a date compared with a number) fails before any write.
            batch.data.dataframe.select(*(row_rule.breaks for row_rule in self._fixed)).schema  # noqa: B018

    def judge(self, rows: DataFrame) -> Verdict:
        """The verdict on a batch; ``rows`` is read more than once, so it should be cheap to read (staged Parquet).

        Raises:
            QualityError: the batch breaks a rule about the whole batch, or a rule could not be evaluated.
        """
        row_rules = list(self._fixed)
        if self._table_rules or self._depends_on_batch:
            validator = self._validator(self._batch(rows))
            self._judge_table(validator)
            row_rules += [_row_rule(rule, expectation, validator) for rule, expectation in self._depends_on_batch]
        if not row_rules:
            return Verdict(rows, None, 0, {})
        with _as_quality_error("the quality suite could not be evaluated"):
            return self._judge_rows(rows, row_rules)

    def _judge_table(self, validator: Any) -> None:
        if not self._table_rules:
            return
        with _as_quality_error("the quality suite could not be evaluated"):
            results = validator.graph_validate([expectation.configuration for _, expectation in self._table_rules])
        by_id = {result.expectation_config.meta["rule_id"]: result for result in results}
        failures = []
        for rule, _ in self._table_rules:
            result = by_id.get(rule.id)
            if result is None:
                raise QualityError(f"Great Expectations gave no result for the rule {rule}")
            problem = _exception(result.exception_info)
            if problem is not None:
                raise QualityError(f"the rule {rule} could not be evaluated: {problem}", hint="Correct the rule")
            if not result.success:
                failures.append(f"{rule}, observed {result.result.get('observed_value')!r}")
        if failures:
            raise QualityError(
                f"the batch breaks {'; '.join(failures)}", hint="Correct the source files, or the rule; then load again"
            )

    def _judge_rows(self, rows: DataFrame, rules: Sequence[_RowRule]) -> Verdict:
        rules = sorted(
            rules, key=lambda row_rule: self._columns.index(row_rule.rule.column) if row_rule.rule.column else -1
        )
        flags = [f"__rule_{index}" for index in range(len(rules))]
        flagged = rows.select("*", *(row_rule.breaks.alias(flag) for row_rule, flag in zip(rules, flags, strict=True)))
        strict = [F.col(flag) for row_rule, flag in zip(rules, flags, strict=True) if row_rule.mostly >= 1]
        counts = flagged.agg(
            F.count_if(reduce(_either, strict, F.lit(False))).alias("__failing"),
            *(F.count_if(F.col(flag)).alias(flag) for flag in flags),
            *(
                F.count_if(row_rule.applies if row_rule.applies is not None else F.lit(True)).alias(f"{flag}_of")
                for row_rule, flag in zip(rules, flags, strict=True)
                if row_rule.mostly < 1
            ),
        ).first()
        assert counts is not None
        broken = [
            (row_rule, flag)
            for row_rule, flag in zip(rules, flags, strict=True)
            if is_rule_broken(counts[flag], counts[f"{flag}_of"] if row_rule.mostly < 1 else 0, row_rule.mostly)
        ]
        if not broken:
            return Verdict(rows, None, 0, {})
        violations = F.array(
            *(
                F.when(
                    F.col(flag),
                    F.struct(
                        F.lit(row_rule.rule.column).cast("string").alias("column"),
                        F.lit(row_rule.rule.id).alias("reason"),
                        F.lit(row_rule.rule.id).alias("rule"),
                    ),
                )
                for row_rule, flag in broken
            )
        )
        any_broken = reduce(_either, (F.col(flag) for _, flag in broken))
        tolerant = any(row_rule.mostly < 1 for row_rule, _ in broken)
        return Verdict(
            flagged.where(~any_broken).drop(*flags),
            flagged.where(any_broken).withColumn(VIOLATIONS, F.array_compact(violations)).drop(*flags),
            flagged.where(any_broken).count() if tolerant else counts["__failing"],
            {row_rule.rule.id: counts[flag] for row_rule, flag in broken},
        )

    def _batch(self, rows: DataFrame) -> Any:
        self._batches += 1
        source = self._context.data_sources.add_or_update_spark("load", persist=False)
        asset = source.add_dataframe_asset(f"batch {self._batches}")
        return asset.add_batch_definition_whole_dataframe("rows").get_batch({"dataframe": rows})

    def _validator(self, batch: Any) -> Any:
        from great_expectations.validator.validator import Validator

        return Validator(execution_engine=batch.data.execution_engine, data_context=self._context, batches=[batch])


def _either(left: Column, right: Column) -> Column:
    return left | right


def _expectation(rule: Rule) -> Any:
    from great_expectations.exceptions import ExpectationNotFoundError
    from great_expectations.expectations.registry import get_expectation_impl

    try:
        kind = get_expectation_impl(rule.type)
    except ExpectationNotFoundError:
        raise QualityError(
            f"the type of the rule {rule.id} is {rule.type!r}, which is not a known expectation",
            hint="Use the name of a Great Expectations expectation, such as expect_column_values_to_be_between",
        ) from None
    try:
        return kind(**rule.arguments, meta={"rule_id": rule.id})
    except Exception as error:  # errors of pydantic and of the expectations' validators
        raise QualityError(f"the rule {rule} is not valid: {error}", hint="Correct its kwargs") from error


def _condition_metric(expectation: Any, validator: Any) -> Any:
    from great_expectations.validator.metric_configuration import MetricConfiguration

    name = expectation.map_metric
    needed = expectation.get_validation_dependencies(execution_engine=validator.execution_engine)
    counted = needed.metric_configurations.get(f"{name}.unexpected_count")
    if counted is None:
        raise QualityError(
            f"Great Expectations has no Spark condition for {expectation.expectation_type}",
            hint="Use another expectation",
        )
    return MetricConfiguration(f"{name}.condition", counted.metric_domain_kwargs, counted.metric_value_kwargs)


def _is_fixed(expectation: Any, validator: Any) -> bool:
    """Whether the rule's condition is the same for every batch; a z-score, for example, needs the batch's mean."""
    from great_expectations.expectations.registry import get_metric_provider

    with _as_quality_error(f"{expectation.expectation_type} cannot be evaluated on Spark"):
        metric = _condition_metric(expectation, validator)
        provider, _ = get_metric_provider(metric.metric_name, validator.execution_engine)
        needs = provider.get_evaluation_dependencies(metric=metric, execution_engine=validator.execution_engine)
    return {need.metric_name for need in needs.values()} <= _FIXED_METRICS


def _row_rule(rule: Rule, expectation: Any, validator: Any) -> _RowRule:
    with _as_quality_error(f"the rule {rule} cannot be evaluated on Spark"):
        condition, domain, accessor = validator.get_metric(_condition_metric(expectation, validator))
        applies = [
            F.expr(filter_condition.condition) for filter_condition in domain.get("filter_conditions", ())
        ] + _not_ignored(domain, accessor)
        if domain.get("row_condition"):
            if expectation.map_metric in ("column_values.unique", "compound_columns.unique"):
                raise QualityError(
                    f"the rule {rule} has a row_condition; expected none, because uniqueness is checked among all rows",
                    hint="Leave row_condition out of a uniqueness rule",
                )
            applies.append(_row_condition(domain, validator.execution_engine))
        column = accessor.get("column")
        if column is not None and expectation.map_metric not in ("column_values.nonnull", "column_values.null"):
            applies.append(F.col(column).isNotNull())
    is_applicable = reduce(lambda left, right: left & right, applies) if applies else None
    breaks = condition if is_applicable is None else is_applicable & condition
    return _RowRule(rule, float(expectation.mostly), is_applicable, F.coalesce(breaks, F.lit(False)))


def _row_condition(domain: Mapping[str, Any], engine: Any) -> Column:
    """The rule's ``row_condition`` as a column, taken from the filter that Great Expectations applies."""
    conditions: list[Column] = []

    class _Filtered:
        schema = engine.dataframe.schema

        def filter(self, condition: Any) -> _Filtered:
            conditions.append(F.expr(condition) if isinstance(condition, str) else condition)
            return self

    engine._apply_row_condition_filter(_Filtered(), domain["row_condition"], domain)
    return reduce(lambda left, right: left & right, conditions)


def _not_ignored(domain: Mapping[str, Any], accessor: Mapping[str, Any]) -> list[Column]:
    """The conditions under which a rule about several columns applies to a row, by the rule's ``ignore_row_if``."""
    names = accessor.get("column_list") or [accessor[key] for key in ("column_A", "column_B") if key in accessor]
    missing = [F.col(name).isNull() for name in names]
    ignore = domain.get("ignore_row_if")
    if ignore in ("both_values_are_missing", "all_values_are_missing"):
        return [~reduce(lambda left, right: left & right, missing)]
    if ignore in ("either_value_is_missing", "any_value_is_missing"):
        return [~reduce(_either, missing)]
    return []


def _exception(info: Mapping[str, Any]) -> str | None:
    """The message of an exception in a result's ``exception_info``, which may be nested by metric."""
    for entry in (info, *(value for value in info.values() if isinstance(value, Mapping))):
        if entry.get("raised_exception"):
            return str(entry.get("exception_message")).partition("\n")[0]
    return None


@contextmanager
def _as_quality_error(message: str) -> Iterator[None]:
    """Raise every error as a ``QualityError`` with a message and the first cause."""
    try:
        yield
    except QualityError:
        raise
    except Exception as error:  # Great Expectations and Spark raise many classes for a wrong rule or column
        raise QualityError(f"{message}: {_cause(error)}", hint="Correct the rule") from error


def _cause(error: Exception) -> str:
    """The first cause in a Java stack trace, else the error's first line."""
    lines = str(error).splitlines() or [type(error).__name__]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    causes += [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return (causes[0] if causes else lines[0]).rstrip(".")


def _quieten() -> None:
    for name in ("great_expectations", "great_expectations.expectations.registry"):
        logging.getLogger(name).setLevel(logging.ERROR)
