"""The values of the pages' templates: times, sizes, commits of any writer, and the histogram."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from lakehouse_airflow.pages.urls import Urls
from lakehouse_airflow.pages.views.commit import Task, commit_of, fields_of, task_of
from lakehouse_airflow.pages.views.histogram import HEIGHT, WIDTH, histogram_of
from lakehouse_airflow.pages.views.texts import age_text, bytes_text, duration_text, sentence_text, time_text
from lakehouse_airflow.pages.views.trend import trend_of
from lakehouse_lib.fleet.health.sizes import size_histogram

NOW = 1_800_000_000_000
SECOND, DAY = 1000, 86_400_000


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (NOW, "just now"),
        (NOW - 59 * SECOND, "just now"),
        (NOW - 60 * SECOND, "1 minute ago"),
        (NOW - 3 * 3600 * SECOND, "3 hours ago"),
        (NOW - 1_234 * DAY, "1,234 days ago"),
        (NOW + 2 * DAY, "in 2 days"),
        (NOW + 5 * SECOND, "in a minute"),
        (None, "–"),
        (10**18, "–"),
    ],
)
def test_an_age_is_shown_in_words(milliseconds: int | None, text: str) -> None:
    assert age_text(milliseconds, NOW) == text


def test_times_and_sizes_have_units() -> None:
    assert time_text(NOW) == "2027-01-15 08:00 UTC"
    assert [bytes_text(size) for size in (None, 0, 1536, 5 * 2**40)] == ["–", "0 B", "1.5 KiB", "5.0 TiB"]
    durations = [duration_text(seconds) for seconds in (None, 0.25, 12, 59.99, 61, 3_900, 359_999)]
    assert durations == ["–", "250 ms", "12.0 s", "60.0 s", "1 min", "1 h 5 min", "100 h 0 min"]
    assert sentence_text("3 files are below half of 104857600 bytes") == "3 files are below half of 100.0 MiB"


@pytest.mark.parametrize(
    "info",
    [
        {"version": 3},
        {"version": 3, "timestamp": "x", "operation": ["a"], "userName": 7, "airflow": "dag", "operationMetrics": "x"},
        {
            "version": 3,
            "airflow": {"dag_id": "d", "run_id": None, "task_id": "t"},
            "operationMetrics": {"numFiles": -1},
        },
        {"version": 3, "airflow": {"dag_id": {}, "run_id": [], "task_id": ""}, "operationMetrics": {"numFiles": {}}},
    ],
)
def test_a_commit_of_any_writer_has_a_row(info: dict[str, Any]) -> None:
    commit = commit_of(info)
    assert (commit.version, commit.task, commit.user, commit.operation) == (3, None, None, "unknown operation")
    assert commit.summary == ""
    assert all(isinstance(text, str) for _, text in fields_of(info))


def test_the_fields_of_a_commit_are_texts_with_units() -> None:
    info = {
        "timestamp": NOW,
        "operationParameters": {"mode": "Append", "partitionBy": '["day"]', "nested": {"a": [1, {"b": None}]}},
        "operationMetrics": {"numOutputRows": "1234567", "numOutputBytes": "2048", "executionTimeMs": 1500},
        "isBlindAppend": True,
        "isolationLevel": None,
    }
    assert dict(fields_of(info)) == {
        "timestamp": "2027-01-15 08:00 UTC",
        "operationParameters.mode": "Append",
        "operationParameters.partitionBy": '["day"]',
        "operationParameters.nested.a": '[1, {"b": null}]',
        "operationMetrics.numOutputRows": "1,234,567",
        "operationMetrics.numOutputBytes": "2.0 KiB",
        "operationMetrics.executionTimeMs": "1.5 s",
        "isBlindAppend": "true",
    }
    assert commit_of({**info, "version": 1}).summary == "1,234,567 rows written"


def test_the_link_to_a_task_escapes_its_names() -> None:
    names = {"dag_id": "../x", "run_id": "a?b#c", "task_id": 'g.t"', "map_index": -1, "try_number": 1}
    task = task_of({"airflow": names})
    assert task == Task("../x", "a?b#c", 'g.t"', -1, 1)
    assert Urls("/base").task(task) == "/base/dags/..%2Fx/runs/a%3Fb%23c/tasks/g.t%22"
    mapped = task_of({"airflow": {**names, "map_index": 4}})
    assert mapped is not None
    assert Urls("").task(mapped).endswith("/mapped/4")


def test_the_trend_is_inside_the_image_and_in_words() -> None:
    def looks(*scores: int) -> pa.Table:
        times = pa.array([(NOW + number * DAY) * 1000 for number in range(len(scores))], pa.int64())
        moments = pa.chunked_array([times.cast(pa.timestamp("us", "UTC"))])
        return pa.table({"looked_at": moments, "score": pa.array(scores, pa.int64())})

    trend = trend_of(looks(100, 40, *[70] * 1_000, 90))
    assert trend is not None
    assert trend.description.startswith("1,003 measurements from 2027-01-15 08:00 UTC to 2029-10-13 08:00 UTC: ")
    assert trend.description.endswith("first 100, lowest 40, highest 100, last 90")
    points = [tuple(map(float, point.split(","))) for point in trend.points.split()]
    assert len(points) <= 360
    assert points[0] == (trend.left, dict(trend.grid)[100])
    assert points[-1][0] == trend.width
    assert all(trend.left <= x <= trend.width and dict(trend.grid)[100] <= y <= dict(trend.grid)[0] for x, y in points)
    assert trend_of(looks(100)) is None
    assert trend_of(looks()) is None


def test_the_bars_of_the_histogram_are_inside_the_image_and_in_words() -> None:
    sizes = np.array([0, 65_535, 65_536, 2**40], np.int64)
    histogram = histogram_of(size_histogram(sizes))
    assert histogram is not None
    assert histogram.description == "2 files below 64 KiB; 1 file from 64 KiB to 256 KiB; 1 file from 4 GiB on"
    assert [bar.files for bar in histogram.bars] == [2, 1, 0, 0, 0, 0, 0, 0, 0, 1]
    assert histogram.bars[0].height == 2 * histogram.bars[1].height > 0
    for bar in histogram.bars:
        assert bar.x >= 0
        assert bar.x + bar.width <= WIDTH
        assert bar.y >= 0
        assert bar.y + bar.height <= HEIGHT
    assert histogram_of(size_histogram(sizes[:0])) is None
