"""``lakehouse optimize``: merge small files."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lakehouse_lib.catalogue import COMPACT
from lakehouse_lib.cli.command import Command, Report, add_exit_code, add_run
from lakehouse_lib.cli.engines import add_engine
from lakehouse_lib.cli.rewriting import partitions_of, rewrite
from lakehouse_lib.cli.tables import add_tables
from lakehouse_lib.command_options import add_optional

if TYPE_CHECKING:
    from lakehouse_lib.fleet.planner.step import Step
    from lakehouse_lib.fleet.table_run import MaintainedTable
    from lakehouse_lib.snapshot import Snapshot


def configure(parser: ArgumentParser) -> None:
    add_tables(parser)
    for name in ("target_file_size", "where", "min_commit_interval"):
        add_optional(parser, COMPACT, name)
    add_engine(parser)
    add_run(parser, "rewrite the files")
    add_exit_code(parser)


def run(arguments: Namespace) -> Report:
    """Merge the small files of each table."""

    def size(table: MaintainedTable) -> int | None:
        if arguments.target_file_size is None:
            return table.policy.target_file_size
        return int(arguments.target_file_size)

    def predict(table: MaintainedTable, snapshot: Snapshot) -> Step | None:
        from lakehouse_lib.fleet.planner.rewrites import rewrite_step

        policy = replace(table.policy, verbs=("optimize",), target_file_size=size(table))
        return rewrite_step(table.name, snapshot, policy, partitions_of(arguments, snapshot))

    def values(table: MaintainedTable) -> Mapping[str, Any]:
        return {
            "target_file_size": size(table),
            "where": arguments.where,
            "min_commit_interval": arguments.min_commit_interval,
        }

    return rewrite(arguments, COMPACT, predict, values)


COMMANDS = (Command("optimize", "Merge small files into files of about the target size.", configure, run),)
