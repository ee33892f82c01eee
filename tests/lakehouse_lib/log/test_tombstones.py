"""Tombstones expire after the table's retention, which counts from the earlier of two clocks."""

import pyarrow as pa
import pytest

from lakehouse_lib.log.retention import tombstones
from lakehouse_lib.protocol.actions import FILE_SCHEMA, TOMBSTONE_SCHEMA

HOUR = 3_600_000
RETENTION = {"delta.deletedFileRetentionDuration": "interval 2 hours"}


def removed_at(*times):
    return pa.Table.from_pylist(
        [{"path": str(time), "deletionTimestamp": time} for time in times], schema=TOMBSTONE_SCHEMA
    )


def test_a_tombstone_has_what_its_file_has_but_the_statistics():
    entry = {"path": "a", "partitionValues": [("p", "1")], "size": 7, "dataChange": False, "stats": "{}", "tags": None}
    removal = tombstones.removals(pa.Table.from_pylist([entry], schema=FILE_SCHEMA), 50)
    assert removal.schema == TOMBSTONE_SCHEMA
    row = removal.to_pylist()[0]
    assert {key: value for key, value in row.items() if value is not None} == {
        "path": "a",
        "deletionTimestamp": 50,
        "dataChange": False,
        "extendedFileMetadata": True,
        "partitionValues": [("p", "1")],
        "size": 7,
    }


@pytest.mark.parametrize(("now", "committed"), [(10, 10), (10, 30), (30, 10)])
def test_the_retention_of_a_checkpoint_counts_from_the_earlier_time(now, committed):
    cutoff = tombstones.checkpoint_cutoff(RETENTION, now=now * HOUR, committed=committed * HOUR, table="t")
    assert cutoff == 8 * HOUR
    assert tombstones.retention({}, "t") == 7 * 24 * HOUR


def test_a_tombstone_expires_at_the_cutoff_and_without_a_time_it_is_of_1970():
    times = removed_at(9, 10, 11, None)
    assert tombstones.are_expired(times, 10).to_pylist() == [True, True, False, True]
    assert tombstones.drop_expired(times, 10)["deletionTimestamp"].to_pylist() == [11]
    assert [tombstones.is_expired(time, 10) for time in (9, 10, 11)] == [True, True, False]
    assert tombstones.drop_expired(removed_at(None), -1)["path"].to_pylist() == ["None"]
