"""Files that a disk or a network fails to read: the run fails, and no file is refused."""

from __future__ import annotations

import errno
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakehouse_lib.errors import LandingError
from lakehouse_lib.ingestion.landing import Fingerprint
from lakehouse_lib.ingestion.landing.folder import LandingFolder
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.schema import Field, Schema
from tests.spark_jobs.loading import Shop

OPENED = LandingFolder.open


class FailingDisk(io.FileIO):
    """A file of a disk that fails from the second read on, or when it is opened."""

    reads = 0

    def read(self, size: int | None = -1) -> Any:
        self.reads += 1
        if self.reads > 1:
            raise OSError(errno.EIO, "Input/output error")
        return super().read(size)


def open_failing(folder: LandingFolder, file: Fingerprint) -> pa.NativeFile:
    return pa.PythonFile(FailingDisk(str(folder.path / file.name)), "r")


def fail_to_open(folder: LandingFolder, file: Fingerprint) -> pa.NativeFile:
    raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("failing", [open_failing, fail_to_open])
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.json", "a.json_array", "a.parquet", "a.orc"])
def test_a_failing_disk_fails_the_run_and_the_next_run_loads_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, failing: Any
) -> None:
    shop = Shop(tmp_path)
    path, rows = shop.landing / name, pa.table({"id": pa.array(range(1000), pa.int64())})
    if name == "a.parquet":
        pq.write_table(rows, path)
    elif name == "a.orc":
        orc.write_table(rows, path)
    elif "json" in name:
        lines = [f'{{"id": {number}}}' for number in range(1000)]
        path.write_text("\n".join(lines) if name == "a.json" else f"[{','.join(lines)}]")
    else:
        with pa.output_stream(path, compression="gzip" if name.endswith("gz") else None) as out:
            out.write(("id\n" + "\n".join(map(str, range(1000)))).encode())
    source = shop.source(schema=Schema([Field("id", "long")]), format=SourceFormat(name.split(".")[1]))
    monkeypatch.setattr(LandingFolder, "open", failing)
    with pytest.raises(LandingError, match=rf"{name} cannot be read: Input/output error"):
        Load(source).run()
    monkeypatch.setattr(LandingFolder, "open", OPENED)
    assert not Load(source).run().refused
    assert shop.ids() == list(range(1000))
