"""A new kind of store is one module: all verbs work with a store that the library does not know."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.spark import store_access
from lakehouse_lib.engine.spark.engine import SparkEngine
from lakehouse_lib.errors import InvalidArgumentError, PathOutsideTableError, StoreError
from lakehouse_lib.privacy.purge import prove, purge
from lakehouse_lib.store import open_store
from lakehouse_lib.store.schemes import canonical_location
from tests.lakehouse_lib.store.trial_store import TrialStore
from tests.store_contract import StoreContract
from tests.table_on_s3 import ids, rows

LOCATION = "trial://shelf/my orders: 1"


@pytest.fixture
def options(tmp_path: Path) -> dict[str, str]:
    return {"folder": str(tmp_path / "shelves"), "trial_key": "hunter2"}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """The table's folder, which delta-rs can read."""
    return str(tmp_path / "shelves" / "shelf" / "my orders: 1")


class TestTrialStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return open_store(LOCATION, {"folder": str(tmp_path)})


def delta_rs_ids(folder: str) -> list[int]:
    return sorted(deltalake.DeltaTable(folder).to_pyarrow_table()["id"].to_pylist())


def test_every_verb(options, folder):
    write_deltalake(LOCATION, rows(0), partition_by="shop", storage_options=options)
    write_deltalake(LOCATION, rows(100), mode="append", storage_options=options)
    table = DeltaTable(LOCATION, storage_options=options)
    assert isinstance(table.store, TrialStore)
    assert ids(table.to_pyarrow_table()) == list(range(200)) == delta_rs_ids(folder)
    assert table.delete("id >= 150 OR shop = 'shop 1'")["num_deleted_rows"] == 88
    assert ids(table.to_pyarrow_table()) == delta_rs_ids(folder)
    assert table.optimize.compact()["numFilesRemoved"] > 0
    write_deltalake(table, rows(1000, 4000), mode="append")
    assert table.optimize.z_order(["id"], target_size=3_000)["numFilesAdded"] > 0
    assert ids(table.to_pyarrow_table()) == delta_rs_ids(folder)
    dataset = table.to_pyarrow_dataset()
    assert dataset.to_table(filter=(pc.field("shop") == "shop 2") & (pc.field("id") < 50)).num_rows == 12
    assert all(uri.startswith(f"{LOCATION}/shop=shop ") for uri in table.file_uris())
    table.create_checkpoint()
    stored = len([meta for meta in table.store.walk() if meta.path.endswith(".parquet")])
    gone = table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert len(gone) > 0
    assert len([meta for meta in table.store.walk() if meta.path.endswith(".parquet")]) == stored - len(gone)
    assert ids(DeltaTable(LOCATION, storage_options=options).to_pyarrow_table()) == delta_rs_ids(folder)
    assert DeltaTable(LOCATION, 1, options).version() == 1
    assert table.repair(dry_run=True)
    assert prove(LOCATION, "id = 3", storage_options=options).rows == 1
    table.delete("id = 3")
    purge(LOCATION, "id = 3", storage_options=options)
    assert prove(LOCATION, "id = 3", storage_options=options).rows == 0


def test_paths_of_the_log_may_be_whole_locations(options):
    source = "trial://shelf/source: 2"
    write_deltalake(source, rows(0), storage_options=options)
    name = "_delta_log/00000000000000000000.json"
    data = open_store(source, options).read(name)
    for spelled in ("trial://shelf/source:%202", "TRIALS://shelf//source%3A%202", "/source: 2"):
        clone = f"trial://shelf/clone-{spelled[:1]}"
        open_store(clone, options).put(name, data.replace(b'"path":"', f'"path":"{spelled}/'.encode()))
        with pytest.raises(PathOutsideTableError):
            DeltaTable(clone, storage_options=options).to_pyarrow_table()
        table = DeltaTable(clone, storage_options={**options, "allowed_roots": f"trial://other|{source}"})
        assert ids(table.to_pyarrow_table()) == list(range(100))
        assert ids(table.to_pyarrow_dataset().to_table()) == list(range(100))
        assert table.file_uris()[0].startswith(f"{source}/part-")


def test_errors_of_writing_have_the_hint_of_the_store(options, monkeypatch):
    def full(self: TrialStore, path: str) -> pa.NativeFile:
        return pa.PythonFile(open("/dev/full", "wb", buffering=0), "w")

    monkeypatch.setattr(TrialStore, "open_output", full)
    with pytest.raises(StoreError, match="cannot be written") as error:
        write_deltalake(LOCATION, rows(0), storage_options=options)
    assert error.value.hint == "Ask the keeper of the shelf"


def test_a_path_is_as_long_as_the_store_allows(options):
    values = pa.table({"id": [1], "shop": ["x" * 2000]})
    with pytest.raises(InvalidArgumentError, match="makes a label of more than 2048 bytes"):
        write_deltalake(LOCATION, values, partition_by="shop", storage_options=options)


@pytest.mark.parametrize("renames", ["true", "false"])
def test_spark_reads_and_writes(options, folder, spark, renames):
    options = {**options, "renames": renames}
    engine = SparkEngine(spark)
    frame = spark.range(0, 100, 1, 2).selectExpr("id", "concat('shop ', id % 3) AS shop")
    write_deltalake(LOCATION, frame, partition_by="shop", storage_options=options, engine=engine)
    paths = DeltaTable(LOCATION, storage_options=options).file_uris()
    assert all(("spark_write" in path) == (renames == "true") for path in paths)
    write_deltalake(LOCATION, frame.selectExpr("id + 100 AS id", "shop"), mode="append", storage_options=options)
    table = DeltaTable(LOCATION, storage_options=options, engine=engine)
    assert delta_rs_ids(folder) == list(range(200))
    assert sorted(row.id for row in table.to_spark(spark).where("shop = 'shop 2'").collect()) == [
        number for number in range(200) if number % 100 % 3 == 2
    ]
    assert table.delete("id >= 150")["num_deleted_rows"] == 50
    assert table.optimize.compact()["numFilesRemoved"] > 0
    assert sorted(row.id for row in table.to_spark(spark).collect()) == list(range(150)) == delta_rs_ids(folder)


def test_spark_reads_files_of_allowed_roots(options, spark, tmp_path):
    source, clone = "trial://shelf/source: 2", "trial://shelf/clone #3"
    write_deltalake(source, rows(0), storage_options=options)
    name = "_delta_log/00000000000000000000.json"
    data = open_store(source, options).read(name).replace(b'"path":"', b'"path":"trial://shelf/source:%202/')
    open_store(clone.replace("#", "%23"), options).put(name, data)
    allowed = {**options, "allowed_roots": source}
    write_deltalake(clone.replace("#", "%23"), rows(100), mode="append", storage_options=allowed)
    table = DeltaTable(clone.replace("#", "%23"), storage_options=allowed)
    assert sorted(row.id for row in table.to_spark(spark).collect()) == list(range(200))


def test_the_properties_go_with_each_scan_and_are_in_no_text(options, spark):
    write_deltalake(LOCATION, rows(0), storage_options=options)
    store = open_store(LOCATION, options)
    assert store_access.options(spark, store) == {"fs.trial.shelf.shelf.key": "hunter2"}
    assert "hunter2" not in repr(store.spark_access(store.root))
    assert spark.conf.get("fs.trial.shelf.shelf.key", "") == ""
    frame = DeltaTable(LOCATION, storage_options=options).to_spark(spark)
    assert "hunter2" not in frame._jdf.queryExecution().toString()


def test_locations_are_compared_by_the_stores_own_spelling():
    assert canonical_location("trial://shelf/t/") == "trial://shelf/t"
    assert canonical_location("s3a://bucket/t/") == "s3://bucket/t"
    assert canonical_location("//data/t/") == canonical_location("file:////data/t") == "/data/t"


def test_a_scheme_without_a_store_is_refused(options):
    with pytest.raises(InvalidArgumentError, match=r"the scheme heap: of the location .* has no store") as error:
        open_store("heap://shelf/t", options)
    assert error.value.code == "DELTA_UNSUPPORTED_STORE"
    assert "trial:" in (error.value.hint or "")


def test_a_store_is_added_by_its_folder(tmp_path):
    """In a separate process, because imports and registrations last until the end of a process."""
    (tmp_path / "shelves").mkdir()
    (tmp_path / "shelves" / "__init__.py").write_text("import tests.lakehouse_lib.store.trial_store\n")
    script = (
        "import sys, lakehouse_lib.store as store\n"
        "store.__path__.append(sys.argv[1])\n"
        "assert store.open_store('/t').root == '/t'\n"
        "assert 'lakehouse_lib.store.s3' not in sys.modules\n"
        "print(store.open_store('trial://shelf/t', {'folder': '/f'}).root)\n"
        "assert 'boto3' not in sys.modules\n"
    )
    process = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert process.stdout == "trial://shelf/t\n"
