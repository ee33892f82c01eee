"""Shared fixtures and settings: one Spark session, both engines, and the marks of slow tests."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadFileScheduling

from tests.table_copies import CopyOf, TableCopies

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse_lib.engine.base import Engine

# Warnings of third parties, each filter as narrow as possible.
THIRD_PARTY_WARNINGS = (
    # py4j leaves its sockets to the garbage collector.
    "ignore:unclosed.*socket:ResourceWarning",
    # Great Expectations imports modules that Python has renamed.
    "ignore:module 'sre_:DeprecationWarning",
    "ignore:distutils Version classes are deprecated:DeprecationWarning:pyspark",
)


ROOT = Path(__file__).parent.parent

#: Tests that share a process, because its start takes seconds. They run first, because each group takes long.
SHARED_PROCESSES = {
    # The tests on Spark that are part of ``make test``: the contract of both engines, and the jobs.
    "spark": (ROOT / "tests/lakehouse_lib/engine/test_both_engines.py", ROOT / "tests/spark_jobs"),
    # Tests that load Airflow; those of the project run the examples of the pages.
    "airflow": (ROOT / "tests/airflow", ROOT / "tests/project"),
}

# The number of examples of property tests. There is no deadline, because tests must not depend on the machine's speed.
for profile, examples in {"ci": 10, "all": 100, "nightly": 500, "long": 20_000}.items():
    settings.register_profile(
        profile, max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow]
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_configure(config: pytest.Config) -> None:
    for line in THIRD_PARTY_WARNINGS:
        config.addinivalue_line("filterwarnings", line)
    # py4j logs when the interpreter ends, to streams that are already closed. pytest's summary must be the last line.
    logging.getLogger("py4j").setLevel(logging.WARNING)


@pytest.hookimpl(tryfirst=True)  # before pytest picks by markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if needs_spark(item) and shared_process(item.path) != "spark":
            item.add_marker(pytest.mark.slow)
    order = [*SHARED_PROCESSES, None]
    items.sort(key=lambda item: order.index(shared_process(item.path)))


@cache
def shared_process(path: Path) -> str | None:
    """The name of the process that runs a file's tests with those of other files."""
    for name, places in SHARED_PROCESSES.items():
        if any(path.is_relative_to(place) for place in places):
            return name
    return None


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling:
    return FilesOfProcesses(config, log)


class FilesOfProcesses(LoadFileScheduling):
    """The tests of a file run in one process, and so do those of all files of a shared process."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return shared_process(ROOT / file) or file


def needs_spark(item: pytest.Item) -> bool:
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    engines = [str(value) for name, value in parameters.items() if name.endswith("engine")]
    return "spark" in getattr(item, "fixturenames", ()) or any(engine.startswith("spark") for engine in engines)


@pytest.fixture(scope="session", autouse=True)
def listings_that_lag_little() -> Iterator[None]:
    """Shorten the wait of two seconds for commits that a listing may not show yet; local listings show all commits."""
    from lakehouse_lib.log import segment, table_identity
    from lakehouse_lib.log.replay import table_state

    with pytest.MonkeyPatch.context() as patch:
        for module in (table_identity, table_state, segment):
            patch.setattr(module, "LISTING_WAITS", tuple(wait / 50 for wait in segment.LISTING_WAITS))
        yield


@pytest.fixture(scope="session", autouse=True)
def disks_without_sync() -> Iterator[None]:
    """Leave out fsync: tests kill processes, but not the machine, and a commit waits for the disk most of its time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(scope="session")
def copy_of(tmp_path_factory: pytest.TempPathFactory) -> CopyOf:
    """``copy_of(build, path)`` is a copy of the table that ``build(folder)`` makes, at ``path``; it is built once."""
    return TableCopies(tmp_path_factory.mktemp("built")).copy


@pytest.fixture(scope="session")
def spark_events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the session's event log."""
    return tmp_path_factory.mktemp("spark-events")


@pytest.fixture(scope="session")
def spark(spark_events: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One small Spark session for the whole run. Its time zone is not UTC, to show code that depends on the zone."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("lakehouse tests")
        .config("spark.driver.memory", "2g")
        # The session lives for minutes, and the second JIT compiler would keep much memory.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "America/New_York")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.compress", "false")
        .config("spark.eventLog.rolling.enabled", "false")
        .config("spark.eventLog.dir", spark_events.as_uri())
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    # Spark's workers read the tables of tests, which are so small that the driver would read them.
    from lakehouse_lib.engine.spark import engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "_DRIVER_BYTES", 0)
        yield session
    session.stop()


@pytest.fixture(params=["arrow", "spark"])
def engine(request: pytest.FixtureRequest) -> Any:
    """Both engines, one after the other; a test must pass on both."""
    chosen: Engine
    if request.param == "arrow":
        from lakehouse_lib.engine.arrow.engine import ArrowEngine

        chosen = ArrowEngine()
    else:
        from lakehouse_lib.engine.spark.engine import SparkEngine

        chosen = SparkEngine(request.getfixturevalue("spark"))
    return chosen
