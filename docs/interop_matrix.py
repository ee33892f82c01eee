"""Write interop.md's matrix from the record of its last run: ``python -m docs.interop_matrix``.

``make interop RECORD=1`` makes the record. A cell is the result of all versions of a table, or of a statement.
"""

from __future__ import annotations

from pathlib import Path

from tests.interop.matrix.outcomes import READERS, WRITES, recorded
from tests.interop.matrix.verb_tables import VERBS

PAGE = Path(__file__).with_name("interop.md")
_BEGIN, _END = "<!-- from here: made by `make docs` -->\n", "<!-- up to here -->\n"
_NOT_RUN = "not run"


def tables() -> str:
    """The Markdown of the matrix and the reasons below it."""
    reasons: dict[str, int] = {}
    text = ""
    record = recorded()
    for heading, titles in (
        ("feature", [title for title in record if title not in VERBS]),
        ("verb", [title for title in record if title in VERBS]),
    ):
        rows = [(heading, "versions", *(f"read by {reader}" for reader in READERS), "written by delta-spark")]
        rows += [("---",) * len(rows[0])]
        for title in titles:
            outcome = record[title]
            reads = [_cell(outcome[reader], reasons) for reader in READERS]
            rows.append((title, outcome["versions"], *reads, _writes(outcome, reasons)))
        text += "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
    return text + "\n" + "".join(f"{number}. {_plain(reason)}\n" for reason, number in reasons.items())


def _cell(reason: str, reasons: dict[str, int]) -> str:
    if reason == _NOT_RUN:
        return reason
    return f"no ({reasons.setdefault(reason, len(reasons) + 1)})" if reason else "yes"


def _writes(outcome: dict[str, str], reasons: dict[str, int]) -> str:
    if {outcome[verb] for verb in WRITES} == {_NOT_RUN}:
        return _NOT_RUN
    refused = [f"{verb} {_cell(outcome[verb], reasons)}" for verb in WRITES if outcome[verb]]
    return ", ".join(refused) or "yes"


def _plain(reason: str) -> str:
    """A reason on one line, without marks of Markdown."""
    return "`` " + " ".join(reason.split()) + " ``"


def page() -> str:
    """The page with its matrix made anew."""
    text = PAGE.read_text(encoding="utf-8")
    head, tail = text.split(_BEGIN)[0], text.split(_END)[1]
    return f"{head}{_BEGIN}{tables()}\n{_END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
