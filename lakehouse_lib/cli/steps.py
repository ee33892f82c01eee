"""Steps of maintenance as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal


def show_steps(terminal: Terminal, steps: Sequence[Mapping[str, Any]], codes: Mapping[str, str] | None = None) -> None:
    """Print planned steps, with their reasons below.

    Args:
        steps: values of ``Step.to_dict``.
        codes: by table, the code of the error that prevented its plan; such a table has a row, too.
    """
    from lakehouse_lib.cli.terminal import Size
    from lakehouse_lib.fleet.planner.step import Partitions

    titles = ("table", "verb", "files", "new files", "rewrites", "frees", "saves per query")
    rows: list[tuple[Any, ...]] = []
    for step in steps:
        effect = step["predicted"]
        rows.append(
            (
                step["table"],
                step["verb"],
                effect["files_removed"],
                effect["files_added"],
                Size(effect["bytes_read"] + effect["bytes_written"]),
                Size(effect["bytes_freed"]),
                Size(effect["query_bytes"]),
            )
        )
    rows += [(table, f"failed: {code}", *[None] * (len(titles) - 2)) for table, code in (codes or {}).items()]
    terminal.rows(titles, rows)
    for step in steps:
        terminal.line(f"{step['table']}: {step['verb']} because {step['reason']}")
        if step["partitions"] is not None:
            terminal.line(f"  {Partitions(**step['partitions']).text}")
