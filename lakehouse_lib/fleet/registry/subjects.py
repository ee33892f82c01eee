"""The subjects of the registry: the persons that can be erased, and who approves it."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from lakehouse_lib.fleet.registry.fields import Name, Reference, Strict

#: Hours after which an unanswered question expires, by default.
RESPONSE_HOURS = 720


class Through(Strict):
    """A table that links a person to rows of another table.

    The rows with the identifier in the column ``key`` have the keys of the other table's rows in the column ``select``.
    """

    table: Name
    key: str
    select: str
    quarantine: bool = False


class SubjectRows(Strict):
    """A table with rows of the subject, and its key column.

    ``key`` holds the identifier or, with ``through``, keys from another table. ``quarantine``: the table holds rejected
    rows, with every column as text, and may not exist yet.
    """

    table: Name
    key: str
    through: Through | None = None
    quarantine: bool = False


class ApprovalPolicy(Strict):
    """The users who may answer a question, and the time they have.

    ``approvers`` are user ids of Airflow's auth manager. ``notifiers`` are references ``package.module:factory``; each
    factory is called without arguments and returns an Airflow notifier.
    """

    approvers: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    four_eyes: bool = Field(default=True, description="the user who triggered a run may not approve its request")
    response_hours: float = Field(
        default=RESPONSE_HOURS, gt=0, le=87_600, description="hours after which an unanswered question expires"
    )
    notifiers: tuple[Reference, ...] = ()

    @model_validator(mode="after")
    def _check_approvers(self) -> Self:
        if not self.approvers:
            raise ValueError('approvers is empty: name at least one user id, such as "approvers": ["officer"]')
        return self


class Subject(ApprovalPolicy):
    """A kind of person whose rows can be erased, and the tables with these rows, parents before children."""

    id_type: Literal["long", "string"]
    rows: tuple[SubjectRows, ...] = Field(min_length=1)

    def places(self) -> list[str]:
        """Names of all tables that a search reads, including the tables of ``through``, sorted."""
        return sorted(
            {rows.table for rows in self.rows} | {rows.through.table for rows in self.rows if rows.through is not None}
        )

    def tables(self) -> list[str]:
        """Names of the tables from which rows are deleted, each once, in the order of the deletes.

        A table whose rows are found through another table precedes that table. The person's own table is the last.
        """
        found_through = [rows.table for rows in self.rows if rows.through is not None]
        own = [rows.table for rows in reversed(self.rows) if rows.through is None]
        links = {(rows.table, rows.through.table) for rows in self.rows if rows.through is not None}
        remaining = list(dict.fromkeys(found_through + own))
        order: list[str] = []
        while remaining:
            parents = {parent for child, parent in links if child in remaining and child != parent}
            # If tables are found through each other, no order fits, and the first of them is next.
            table = next((table for table in remaining if table not in parents), remaining[0])
            order.append(table)
            remaining.remove(table)
        return order
