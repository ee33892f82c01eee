"""The summary has the right figures."""

from __future__ import annotations

import io
from datetime import UTC, datetime

from rich.console import Console

from demo.checks import Check
from demo.measure import TableState
from demo.pipeline import Release
from demo.summary import Record, show

WHERE = "l_partkey = 10007"


def rendered(record: Record) -> str:
    out = io.StringIO()
    show(record, Console(file=out, width=140, highlight=False, soft_wrap=True))
    return out.getvalue()


def record(**changes: object) -> Record:
    values: dict[str, object] = {
        "loaded": {"lineitem": TableState("lineitem", 5, 600_543, 48, 48 * 2048, {WHERE: 48})},
        "maintained": {"lineitem": TableState("lineitem", 7, 600_543, 36, 36 * 1024 * 1024, {WHERE: 6})},
        "final": {"lineitem": TableState("lineitem", 8, 600_443, 36, 36 * 1024 * 1024, {WHERE: 6})},
        "quarantined": [("lineitem", "breaks the rule quantity_1_to_50", 5)],
        "refused": {"orders-17.csv": "orders-17.csv lacks o_totalprice"},
        "customer": 4711,
        "person_rows": {"orders": (25, 0), "lineitem": (102, 0)},
        "unattributed": {"lineitem_quarantine": (5, 1)},
        "question": "Erase the customer of request 7f3a?",
        "own_answer_refused": True,
        "erasure": {
            "request": "7f3a",
            "digest": "d1",
            "requester": "requester",
            "approver": {"id": "officer", "name": "officer"},
            "approved_at": "2026-01-01T00:00:00+00:00",
            "tables": [{"table": "orders", "rows_deleted": 25, "files_removed": [{}, {}, {}]}],
        },
        "releases": [Release("r", "asset_triggered", datetime(2026, 1, 1, tzinfo=UTC), 12.34, "lineitem", 0, 5)],
        "steps": [("1. Setting up", 20.0), ("2. Loading", 101.5)],
        "checks": [Check("the first holds"), Check("the second does not", ("a differs from b",))],
    }
    return Record(**(values | changes))  # type: ignore[arg-type]


def line_with(text: str, *parts: str) -> str:
    lines = [line for line in text.splitlines() if all(part in line for part in parts)]
    assert lines, f"no line has {parts}"
    return lines[0]


def test_tables_before_and_after() -> None:
    line = line_with(rendered(record()), "lineitem", "5 → 7 → 8")
    assert "600,543 → 600,443" in line
    assert "48 → 36" in line
    assert "2 KiB → 1.0 MiB" in line


def test_files_read_before_and_after() -> None:
    line = line_with(rendered(record()), WHERE)
    assert "48 of 48" in line
    assert "6 of 36" in line


def test_rejected_rows_and_files_with_their_reasons() -> None:
    text = rendered(record())
    line_with(text, "lineitem", "breaks the rule quantity_1_to_50", "5")
    line_with(text, "File rejected as a whole", "orders-17.csv lacks o_totalprice")


def test_the_erased_customer_and_the_approval() -> None:
    text = rendered(record())
    assert "Customer 4711" in text
    line_with(text, "Erase the customer of request 7f3a?")
    line_with(text, "requested by", "requester")
    line_with(text, "approved by", "officer, 2026-01-01")
    line_with(text, "rows deleted", "orders 25")
    line_with(text, "files removed", "orders 3")
    assert line_with(text, "lineitem", "102").split() == ["lineitem", "102", "0"]


def test_the_limits_of_the_erasure_are_listed() -> None:
    text = rendered(record())
    line_with(text, "lineitem_quarantine also has 5 records")
    line_with(text, "1 of them have a key of the customer")
    line_with(text, "Landing files are not erased", "not counted")


def test_how_the_report_was_released() -> None:
    line = line_with(rendered(record()), "asset triggered")
    assert "lineitem 0 to 5" in line
    assert "12.3 s" in line


def test_overridden_settings_are_listed() -> None:
    text = rendered(record())
    assert "Target file sizes are set small" in text
    assert "retention is 0 hours" in text


def test_steps_add_up() -> None:
    assert line_with(rendered(record()), "121.5").split() == ["all", "121.5"]


def test_a_check_that_does_not_hold_is_marked() -> None:
    text = rendered(record())
    assert "✓" in line_with(text, "the first holds")
    assert "✗" in line_with(text, "the second does not")


def test_text_from_data_is_not_read_as_markup() -> None:
    text = rendered(
        record(refused={"a[red].csv": "a[red].csv got [/bold] instead"}, quarantined=[("orders", "[bold]", 1)])
    )
    assert "a[red].csv" in text
    assert "got [/bold] instead" in text
    line_with(text, "orders", "[bold]")
