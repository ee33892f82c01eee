"""Every way to read a version whose files a vacuum has deleted: the error names the file and says what to do."""

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.engine.arrow.dataset import dataset
from lakehouse_lib.engine.arrow.store_filesystem import StoreFileSystem
from lakehouse_lib.errors import ObjectNotFoundError

READINGS = {
    "to_table": lambda table: table.to_pyarrow_dataset().to_table(),
    "count_rows": lambda table: table.to_pyarrow_dataset().count_rows(),
    "batches": lambda table: list(table.to_pyarrow_dataset().to_batches()),
    "a filter": lambda table: table.to_pyarrow_dataset().to_table(filter=pc.field("id") > 1),
    "Polars": lambda table: pl.scan_pyarrow_dataset(table.to_pyarrow_dataset()).collect(),
    "scan": lambda table: list(table.scan()),
    "the store's file system": lambda table: dataset(
        table.snapshot, table.snapshot.files, filesystem=StoreFileSystem.of(table.store)
    ).to_table(),
}


@pytest.mark.parametrize("read", READINGS.values(), ids=READINGS)
def test_the_error_of_a_vacuumed_version_has_a_hint(tmp_path, read):
    for number in range(3):
        write_deltalake(tmp_path, pa.table({"id": [number]}), mode="append")
    DeltaTable(tmp_path).optimize.compact()
    DeltaTable(tmp_path).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(ObjectNotFoundError, match=r"file part-.* is missing .*vacuum.*read the latest version"):
        read(DeltaTable(tmp_path, version=2))
    assert DeltaTable(tmp_path).to_pyarrow_dataset().count_rows() == 3
