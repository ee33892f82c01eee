"""Schedules in the registry: the check accepts what Airflow accepts, and lists each mistake with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from croniter import croniter

from lakehouse_lib.fleet.registry import check_registry
from lakehouse_lib.fleet.registry.schedules import check_schedule

VALID = (
    *("*/15 * * * *", "17 2 * * *", "0 0 * * mon-fri", "0 0 * JAN,feb 7", "0 22-4 * * *", "0 0 l * *", "0 0 ? * 1#2"),
    *("0 0 * * L5", "0 0 * * ?", "0  0 1-31/2 * fri#2", "0 0 1,15 * 1 30", "0 0 1 1 * 0 2030", "@daily", "@annually"),
)


@pytest.mark.parametrize("schedule", VALID)
def test_a_schedule_of_airflow_is_accepted(schedule: str) -> None:
    assert check_schedule(schedule) == schedule
    assert croniter(schedule).get_next() > 0


@pytest.mark.parametrize("schedule", ["@once", "@continuous"])
def test_a_preset_without_dates_is_accepted(schedule: str) -> None:
    assert check_schedule(schedule) == schedule


@pytest.mark.parametrize(
    "schedule",
    [
        *("", "every day", "@nightly", "* * * *", "* * * * * * * *", "61 * * * *", "* 24 * * *", "* * 0 * *"),
        *("* * * 13 *", "* * * * 8", "*/0 * * * *", "* * * foo *", "mon * * * *", "1- * * * *", ", * * * *"),
        *("l * * * *", "* * * * 1#6", "* * * * * 60", "* * * * * 0 1969", "² * * * *", "-1 * * * *", "1.5 * * * *"),
    ],
)
def test_another_text_is_refused(schedule: str) -> None:
    with pytest.raises(ValueError, match=r"^the schedule (is neither|has the)"):
        check_schedule(schedule)
    with pytest.raises(ValueError):
        croniter(schedule).get_next()


def test_the_check_lists_what_airflow_would_refuse(tmp_path: Path) -> None:
    file = tmp_path / "lakehouse.yaml"
    lines = [
        *("tables:", "  orders:", "    uri: t", "    airflow:", "      per: table", "      maintenance: every day"),
        *(
            "      ingest: 61 * * * *",
            f"      tags: [{'x' * 101}]",
            f"      owner: {'o' * 501}",
            f"      pool: {'p' * 257}",
        ),
        *(f"      lakehouse_conn_id: {'c' * 251}", "      timeout_minutes: 1e300"),
    ]
    file.write_text("\n".join(lines))
    mistakes = check_registry(file)
    assert [mistake.line for mistake in mistakes] == [6, 7, 8, 9, 10, 11, 12], [str(mistake) for mistake in mistakes]
    assert str(mistakes[0]) == (
        "tables.orders.airflow.maintenance: the schedule is neither a preset nor a cron expression; expected a preset "
        "such as @daily, or 5 fields such as 30 2 * * * (got 'every day') (line 6)"
    )
    file.write_text(f"tables:\n  {'t' * 201}: {{uri: t}}\n")
    assert [mistake.line for mistake in check_registry(file)] == [2]
