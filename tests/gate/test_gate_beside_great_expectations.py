"""A short form of ``make test-gate``: the gate on Arrow has the verdicts of Great Expectations on Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from lakehouse_lib.engine.spark.session_settings import session_settings
from tests.gate.campaign import play
from tests.gate.judges import SETTINGS

pytestmark = [
    pytest.mark.filterwarnings("ignore:module 'sre_constants' is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The time zone of the process, in which Great Expectations passes times to Spark."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("seed", range(3))
def test_random_suites_have_the_verdicts_of_great_expectations(spark: SparkSession, in_utc: None, seed: int) -> None:
    with session_settings(spark, SETTINGS):
        tally = play(spark, seed, 20)
    assert tally.findings == []
    assert tally.translated > tally.untranslated
