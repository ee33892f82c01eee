"""``lakehouse z-order``: cluster the rows of tables by columns."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.catalogue import Z_ORDER
from lakehouse_lib.cli.command import Command, Report, add_exit_code, add_run
from lakehouse_lib.cli.engines import add_engine
from lakehouse_lib.cli.rewriting import partitions_of, rewrite
from lakehouse_lib.cli.tables import add_tables, with_policy
from lakehouse_lib.command_options import add_optional

if TYPE_CHECKING:
    from lakehouse_lib.fleet.planner.policy import Policy
    from lakehouse_lib.fleet.planner.step import Step
    from lakehouse_lib.fleet.table_run import MaintainedTable
    from lakehouse_lib.snapshot import Snapshot


def configure(parser: ArgumentParser) -> None:
    add_tables(parser)
    for name in ("columns", "target_file_size", "full", "where", "min_commit_interval"):
        add_optional(parser, Z_ORDER, name)
    add_engine(parser)
    add_run(parser, "rewrite the files")
    add_exit_code(parser)


def run(arguments: Namespace) -> Report:
    """Z-order each table by the columns of ``--columns``, else of its policy, else by its clustering columns."""

    def policy_of(table: MaintainedTable) -> Policy:
        return with_policy(table, cluster_by=arguments.columns, target_file_size=arguments.target_file_size).policy

    def predict(table: MaintainedTable, snapshot: Snapshot) -> Step | None:
        from lakehouse_lib.fleet.planner.rewrites import rewrite_step
        from lakehouse_lib.fleet.planner.step import Effect, Step
        from lakehouse_lib.operations.files import total_size
        from lakehouse_lib.operations.optimize.z_order.z_order import check_columns

        policy = policy_of(table)
        partitions = partitions_of(arguments, snapshot)
        columns = check_columns(snapshot, policy.cluster_by or None, partitions)
        if not arguments.full:
            return rewrite_step(table.name, snapshot, replace(policy, verbs=("z_order",)), partitions)
        files = snapshot.prune(partitions, ["size"])
        size = total_size(files)
        effect = Effect(files_removed=len(files), bytes_read=size, bytes_written=size)
        reason = f"--full rewrites all {len(files)} files"
        return Step(table.name, "z_order", snapshot.version, {"columns": list(columns)}, reason, effect)

    def values(table: MaintainedTable) -> Mapping[str, Any]:
        policy = policy_of(table)
        return {
            "columns": policy.cluster_by or None,
            "target_file_size": policy.target_file_size,
            "full": arguments.full,
            "where": arguments.where,
            "min_commit_interval": arguments.min_commit_interval,
        }

    return rewrite(arguments, Z_ORDER, predict, values)


COMMANDS = (
    Command("z-order", "Cluster rows by columns, so that queries that filter by them skip most files.", configure, run),
)
