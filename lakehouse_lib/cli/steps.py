"""Steps of maintenance as rows of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lakehouse_lib.cli.terminal import Terminal


def show_steps(terminal: Terminal, steps: Sequence[Mapping[str, Any]]) -> None:
    """Print planned steps, with their reasons below.

    Args:
        steps: as ``Step.to_dict``.
    """
    from lakehouse_lib.cli.terminal import Size

    titles = ("table", "verb", "files", "new files", "rewrites", "frees", "saves per query")
    rows = []
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
    terminal.rows(titles, rows)
    for step in steps:
        terminal.line(f"{step['table']}: {step['verb']} because {step['reason']}")
