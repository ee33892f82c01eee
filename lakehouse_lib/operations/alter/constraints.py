"""Add and drop CHECK constraints (``delta.constraints.NAME``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.expressions import Predicate, PredicateRule
from lakehouse_lib.expressions.negation import not_true
from lakehouse_lib.features.constraints import check_constraints
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.operations.alter.existing_rows import check_existing_rows
from lakehouse_lib.operations.alter.metadata_change import commit_change
from lakehouse_lib.operations.results import OperationResult
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.snapshot import Snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties


@dataclass(frozen=True)
class ConstraintPlan:
    """New constraints of a table.

    Attributes:
        metadata: the table's metadata with the new constraints.
        rules: the rules of the new constraints.
    """

    metadata: Metadata
    rules: tuple[PredicateRule, ...]

    @property
    def violations(self) -> list[Predicate]:
        """For each rule, the predicate that is true for rows that violate it."""
        return [not_true(rule.predicate) for rule in self.rules]


def plan_constraints(snapshot: Snapshot, constraints: Mapping[str, str]) -> ConstraintPlan:
    """The plan of new constraints. Reads no data.

    A constraint that the table already has with the same condition is left out.

    Raises:
        InvalidArgumentError: ``constraints`` is empty, a name or a condition is not text, or the table has a
            constraint of this name with another condition.
        InvalidPredicateError: a condition does not parse, or names a column that does not exist.
    """
    table, version = snapshot.store.root, snapshot.version
    if not isinstance(constraints, Mapping) or not constraints:
        raise InvalidArgumentError(
            f"constraints is {excerpt(constraints)}; expected a dictionary with at least one constraint",
            table=table,
            hint='Write {"positive": "price > 0"}',
        )
    added: dict[str, str] = {}
    rules: list[PredicateRule] = []
    for name, condition in constraints.items():
        if not isinstance(name, str) or not name.strip() or not isinstance(condition, str):
            raise InvalidArgumentError(
                f"the constraint {excerpt(name)} is {excerpt(condition)}; expected a name and a condition in SQL",
                table=table,
                hint='Write {"positive": "price > 0"}',
            )
        key = name.lower()
        rule = check_constraints.rule_of(key, condition, snapshot.schema, table=table)
        in_spark = check_constraints.spark_condition(key, condition, snapshot.schema, table=table)
        earlier_conditions = [*check_constraints.constraints_of(key, snapshot.configuration).values()]
        if key in added:
            earlier_conditions.append(added[key])
        other_condition = next((text for text in earlier_conditions if text not in (condition, in_spark)), None)
        if other_condition is not None:
            raise InvalidArgumentError(
                f"the constraint {name!r} exists already, with the condition {excerpt(other_condition)}",
                table=table,
                version=version,
                hint=f"Use another name, or first drop the constraint with alter.drop_constraint({name!r})",
                code="DELTA_CONSTRAINT_ALREADY_EXISTS",
            )
        if not earlier_conditions:
            added[key] = in_spark
            rules.append(rule)
    properties = {check_constraints.PREFIX + key: condition for key, condition in added.items()}
    configuration = {**snapshot.configuration, **properties}
    return ConstraintPlan(replace(snapshot.metadata, configuration=configuration), tuple(rules))


def add_constraints(
    snapshot: Snapshot,
    constraints: Mapping[str, str],
    engine: Engine,
    *,
    commit_properties: CommitProperties | None = None,
) -> OperationResult:
    """Add CHECK constraints in one commit, if every row of the table satisfies them.

    Files whose statistics show that no row violates a constraint are not read. If a concurrent commit adds rows that
    may violate a constraint, this commit conflicts with it.

    Args:
        constraints: SQL conditions by name. Names are stored in lower case, as delta-spark does.

    Raises:
        InvalidArgumentError: the table has a constraint of this name with another condition.
        InvalidPredicateError: a condition is not valid, or only Spark can evaluate it and the engine is Arrow's.
        ConstraintViolatedError: rows of the table violate a constraint; nothing is committed.
        CommitFailedError: a concurrent commit conflicts with this one.
    """
    snapshot.check_writable()
    plan = plan_constraints(snapshot, constraints)
    for rule, violation in zip(plan.rules, plan.violations, strict=True):
        _check_evaluated(snapshot, rule, violation, engine)
        check_existing_rows(snapshot, rule, violation, engine)
    expressions = [{"name": name, "expr": condition} for name, condition in constraints.items()]
    parameters = expressions[0] if len(expressions) == 1 else {"constraints": expressions}
    return commit_change(
        snapshot,
        "ADD CONSTRAINT",
        parameters,
        metadata=plan.metadata,
        reads=plan.violations,
        commit_properties=commit_properties,
    )


def drop_constraint(
    snapshot: Snapshot,
    name: str,
    *,
    raise_if_not_exists: bool = True,
    commit_properties: CommitProperties | None = None,
) -> OperationResult:
    """Drop a CHECK constraint.

    Args:
        name: the name of the constraint, in any case.
        raise_if_not_exists: raise an error if the table does not have the constraint; False: commit nothing then.

    Raises:
        InvalidArgumentError: the table does not have the constraint.
    """
    dropped = check_constraints.constraints_of(name, snapshot.configuration) if isinstance(name, str) else {}
    if not dropped:
        if not raise_if_not_exists:
            return OperationResult(snapshot.store.root, snapshot.version, None)
        names = [check_constraints.name_of(key) for key in check_constraints.constraints(snapshot.configuration)]
        raise InvalidArgumentError(
            f"the constraint {excerpt(name)} does not exist",
            table=snapshot.store.root,
            version=snapshot.version,
            hint=f"The constraints are {', '.join(names)}" if names else "The table has no constraints",
            code="DELTA_CONSTRAINT_NOT_FOUND",
        )
    configuration = {key: value for key, value in snapshot.configuration.items() if key not in dropped}
    return commit_change(
        snapshot,
        "DROP CONSTRAINT",
        {"name": name, "expr": "; ".join(dropped.values()), "existed": True},
        metadata=replace(snapshot.metadata, configuration=configuration),
        commit_properties=commit_properties,
    )


def _check_evaluated(snapshot: Snapshot, rule: PredicateRule, violation: Predicate, engine: Engine) -> None:
    """Refuse a condition that the engine cannot evaluate, even if the table has no rows."""
    if engine.name == "spark":
        engine.read(snapshot, None, violation)  # Spark analyses the condition, and reads nothing yet
    else:
        rule.violations(pa.RecordBatch.from_pylist([], snapshot.schema.to_arrow()))
