"""The policy by which a table is maintained."""

from __future__ import annotations

from dataclasses import dataclass

from lakehouse_lib.fleet.planner.verbs import VERBS, Verb


@dataclass(frozen=True)
class Policy:
    """The policy by which a table is maintained.

    Attributes:
        verbs: the verbs that may be planned.
        cluster_by: the columns to Z-order by; empty: the clustering columns of the table. Without such columns, or if a
            Z-order does not pay, small files are merged (``optimize``).
        target_file_size: bytes; None: ``delta.targetFileSize``, else 100 MiB.
        retention_hours: the retention of removed files; None: the table's own retention.
        enforce_retention: refuse a retention shorter than the table's own.
        priority: a factor by which the gain of this table's steps and ``payback_queries`` are multiplied.
        payback_queries: a step is planned if ``payback_queries * priority`` queries save at least its cost, or if it is
            overdue.
        full_vacuum: vacuum lists the table, and deletes files without a log entry, too.
        files_per_second: the largest number of files that vacuum deletes per second; None: no limit.
    """

    verbs: tuple[Verb, ...] = VERBS
    cluster_by: tuple[str, ...] = ()
    target_file_size: int | None = None
    retention_hours: float | None = None
    enforce_retention: bool = True
    priority: float = 1.0
    payback_queries: float = 100.0
    full_vacuum: bool = True
    files_per_second: float | None = None
