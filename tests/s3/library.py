"""The library on a real S3 server: every verb with delta-rs beside us, and what delta-spark wrote."""

from pathlib import Path

import pytest

from lakehouse_lib import DeltaTable
from lakehouse_lib.errors import ObjectNotFoundError
from lakehouse_lib.log.segment import oldest_version
from lakehouse_lib.store import open_store
from tests.table_on_s3 import every_verb

TABLES = Path(__file__).parents[1] / "data" / "delta_spark" / "tables"
NAMES = sorted(one.name for one in TABLES.iterdir() if (one / "_delta_log").is_dir())


def test_every_verb(server, location):
    every_verb(location, server.options)


@pytest.mark.parametrize("name", NAMES)
def test_what_delta_spark_wrote_reads_as_it_does_on_a_disk(server, location, name):
    store = open_store(location, server.options)
    for file in (TABLES / name).rglob("*"):
        if file.is_file():
            store.put(file.relative_to(TABLES / name).as_posix(), file.read_bytes())
    here, there = DeltaTable(TABLES / name), DeltaTable(location, storage_options=server.options)
    for version in range(oldest_version(here.store), here.version() + 1):
        here.load_as_version(version)
        there.load_as_version(version)
        assert shown(there) == shown(here)


def shown(table: DeltaTable) -> str:
    """The rows, NaN and all, or what is told of a version whose files are vacuumed."""
    try:
        return repr(table.to_pyarrow_table().to_pylist())
    except ObjectNotFoundError as error:
        return error.message
