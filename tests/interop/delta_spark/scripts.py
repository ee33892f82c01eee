"""The scripts in ``tables/*.sql``, which create the tables that delta-spark writes.

A script is plain SQL. ``$table`` stands for the table, ``$path`` for its folder, ``$tables`` for the folder of all
tables. A ``SET`` lasts until the end of the table. Besides SQL, a script may have these directives, each on a line:

``-- cleaned N``        commits and checkpoints before version N are deleted, as by a cleanup of the log
``-- aged A B DAYS``    the log's files of versions A to B look DAYS days old
``-- compacted A B``    commits A to B are written into a compacted file (delta-spark reads those but writes none)
``-- repeated N``       the next statement runs N times, with ``$n`` counting from 0
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

SCRIPTS = Path(__file__).parent / "tables"
DIRECTIVE = re.compile(r"-- (cleaned|aged|compacted|repeated)((?: \d+)+)")


def scripts() -> dict[str, list[str]]:
    """The statements and directives of each table, in the order in which the tables are created."""
    return {name: steps for file in sorted(SCRIPTS.glob("*.sql")) for name, steps in tables_of(file)}


def tables_of(file: Path) -> Iterator[tuple[str, list[str]]]:
    """The name, the statements and the directives of each table in a script."""
    head, *parts = re.split(r"^-- table (.+?): .*\n", file.read_text(), flags=re.MULTILINE)
    assert not head.strip(), f"{file}: text before the first table"
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        steps: list[str] = []
        pending = ""
        for line in body.splitlines():
            if not pending and (line.startswith("-- ") or not line.strip()):
                steps += [line] if line.strip() else []
                continue
            pending += line + "\n"
            if line.rstrip().endswith(";"):
                steps.append(pending.strip().rstrip(";").strip())
                pending = ""
        assert not pending, f"{file}: {name}: a statement without end: {pending}"
        yield name, steps
