"""The library on a real S3 server: every verb together with delta-rs, tables of delta-spark, the demo's steps."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import ObjectNotFoundError, VersionNotFoundError
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.source import Source
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.log.segment import oldest_version
from lakehouse_lib.operations.upkeep.cleanup import cleanup
from lakehouse_lib.privacy.erasure import locate
from lakehouse_lib.privacy.purge import prove, purge
from lakehouse_lib.privacy.subject import subject_from_config
from lakehouse_lib.schema import Field, Schema
from lakehouse_lib.store import open_store
from tests.table_on_s3 import delta_rs_ids, every_verb, ids

TABLES = Path(__file__).parents[1] / "data" / "delta_spark" / "tables"
NAMES = sorted(folder.name for folder in TABLES.iterdir() if (folder / "_delta_log").is_dir())


def test_every_verb(server, location):
    every_verb(location, server.options)


@pytest.mark.parametrize("name", NAMES)
def test_tables_of_delta_spark_read_as_on_a_disk(server, location, name):
    store = open_store(location, server.options)
    for file in (TABLES / name).rglob("*"):
        if file.is_file():
            store.put(file.relative_to(TABLES / name).as_posix(), file.read_bytes())
    original, copy = DeltaTable(TABLES / name), DeltaTable(location, storage_options=server.options)
    for version in range(oldest_version(original.store), original.version() + 1):
        original.load_as_version(version)
        copy.load_as_version(version)
        assert shown(copy) == shown(original)


def shown(table: DeltaTable) -> str:
    """The rows with NaN as text, or the error for a version whose files are vacuumed."""
    try:
        return repr(table.to_pyarrow_table().to_pylist())
    except ObjectNotFoundError as error:
        return error.message


SCHEMA = Schema([Field("id", "long", nullable=False), Field("customer", "long"), Field("price", "decimal(15,2)")])


def ingest(sales, refused, options, landing):
    """Load the new files of a folder in this process, without a suite."""
    source = Source(
        sales,
        landing,
        "erp",
        SourceFormat("csv"),
        SCHEMA,
        None,
        refused,
        ("customer",),
        storage_options={sales: options, refused: options},
    )
    assert len(Load(source).run().batches) == 1
    assert Load(source).nothing_to_do() is not None


def test_the_library_calls_of_the_demo(server, location, tmp_path):
    """Landing files, quarantine, maintenance and a proven erasure."""
    options = server.options
    sales, refused = f"{location}/sales", f"{location}/refused"
    store = open_store(sales, options)
    landing = tmp_path / "landing"
    landing.mkdir()
    for number in range(3):
        lines = [f"{number * 100 + row},{row % 4},{row}.50" for row in range(40)]
        (landing / f"{number}.csv").write_text(
            "\n".join(["id,customer,price", *lines, f"{number},3,cheap", ",1,2"]) + "\n"
        )
        ingest(sales, refused, options, landing)
        if number == 1:
            assert DeltaTable(sales, storage_options=options).optimize.compact()["numFilesRemoved"] == 8
    table = DeltaTable(sales, storage_options=options)
    everybody = sorted(number * 100 + row_id for number in range(3) for row_id in range(40))
    assert ids(table.to_pyarrow_table()) == everybody == delta_rs_ids(sales, options)
    assert DeltaTable(refused, storage_options=options).count() == 6
    assert table.transaction_version("erp") == 2

    assert table.optimize.z_order(["price"])["numFilesRemoved"] == 8
    table.create_checkpoint()
    assert ids(table.to_pyarrow_table()) == everybody == delta_rs_ids(sales, options)
    before = table.version()

    subject = subject_from_config({"id_type": "long", "rows": [{"table": "sales", "key": "customer"}]})
    (place,) = locate(subject, 3, {"sales": sales}, storage_options={"sales": options})
    assert place.rows == 30
    assert table.delete(place.predicate)["num_deleted_rows"] == 30
    report = purge(sales, place.predicate, writer_grace=timedelta(0), storage_options=options)
    assert report.rows >= 60
    assert prove(sales, place.predicate, storage_options=options).clean
    left = [row_id for row_id in everybody if row_id % 4 != 3]
    assert ids(table.to_pyarrow_table()) == left == delta_rs_ids(sales, options)
    with pytest.raises(ObjectNotFoundError):
        DeltaTable(sales, before, options).to_pyarrow_table()

    gone = table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert gone
    stored = [meta.path for meta in store.walk() if not meta.path.startswith("_")]
    assert {f"{sales}/{path}" for path in stored} == set(table.file_uris())
    write_deltalake(table, pa.table({"id": [1000], "customer": [0], "price": [Decimal("1.00")]}), mode="append")
    table.create_checkpoint()
    latest, moment = table.version(), table.history(1)[0]["timestamp"]
    expired = cleanup(table.snapshot, dry_run=False, now=datetime.now(UTC) + timedelta(days=40))
    assert f"_delta_log/{0:020d}.json" in expired.files
    again = DeltaTable(sales, storage_options=options)
    assert ids(again.to_pyarrow_table()) == sorted([*left, 1000]) == delta_rs_ids(sales, options)
    with pytest.raises(VersionNotFoundError):
        DeltaTable(sales, 0, options)
    at = DeltaTable(sales, timestamp=datetime.fromtimestamp(moment / 1000, UTC), storage_options=options)
    assert at.version() == latest
    repairs = again.repair()
    assert repairs["files_removed"] == []
    assert again.health().to_dict()
