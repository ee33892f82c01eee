"""Files made to exhaust memory: archives that unpack to a thousand times their size, endless lines, endless files."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from lakehouse_lib.arrow.values import int64s, literal
from lakehouse_lib.errors import SourceRefusedError
from lakehouse_lib.ingestion.inference import additions
from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.sources.csv import read_csv
from lakehouse_lib.ingestion.sources.json.reader import read_json
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from tests.landed_files import landed
from tests.spark_jobs.loading import Shop

SCHEMA = pa.schema([("id", pa.int64()), ("price", pa.float64()), ("note", pa.string())])
_MIB = 1 << 20
_SIZE = 160  # in MiB, of the rows


@pytest.mark.parametrize(
    ("name", "start", "message"),
    [
        ("a.csv.gz", b"id,price,note\n1,2,", r"a\.csv\.gz .*a record is longer than"),
        ("a.csv.gz", b'id,price,note\n1,2,"', r"a\.csv\.gz .*a quoted field is never closed"),
        ("a.json.gz", b'{"note": "', r"a\.json\.gz has a line of more than"),
    ],
)
def test_a_line_of_a_gigabyte_in_a_small_archive_is_refused(
    tmp_path: Path, name: str, start: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(start) + gzip.compress(b"a" * _MIB) * 1024)
    assert path.stat().st_size < 2 * _MIB
    read = read_csv if "csv" in name else read_json
    with pytest.raises(SourceRefusedError, match=message):
        list(read(landed(path), SourceFormat(name.split(".")[1]), SCHEMA))


def test_a_sparse_file_of_50_gigabytes_is_refused_after_its_first_bytes(tmp_path: Path) -> None:
    for name, read in (("a.csv", read_csv), ("a.json", read_json)):
        path = tmp_path / name
        with path.open("wb") as file:
            file.truncate(50 << 30)
        with pytest.raises(SourceRefusedError, match=rf"{name}"):
            list(read(landed(path), SourceFormat(name[2:]), SCHEMA))


@pytest.mark.parametrize("evolution", ["refuse", "add_columns"])
def test_a_file_of_objects_with_a_key_of_their_own_is_refused(
    tmp_path: Path, evolution: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each unknown key needs a mask of all rows, or a column of the table: 16,000 keys took minutes."""
    monkeypatch.setattr(additions, "MOST_COLUMNS", 101)
    shop = Shop(tmp_path, {"format": SourceFormat("json", evolution=evolution)})
    (shop.landing / "keys.json").write_text('{"id": 1}\n' + "".join(f'{{"k{row}": 1}}\n' for row in range(102)))
    (shop.landing / "rows.json").write_text('{"id": 2}\n{"id": 3, "extra": 1}\n')
    result = Load(shop.source(files_per_batch=2)).run()
    assert "keys.json has more than 100 keys that are not columns of the schema" in result.refused["keys.json"]
    assert shop.ids() == ([2, 3] if evolution == "add_columns" else [2])
    assert len(DeltaTable(str(shop.table)).schema().fields) <= 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.json", "a.json.gz"])
def test_a_task_needs_less_than_512_mib(tmp_path: Path, name: str) -> None:
    """A file, or an archive of a hundredth of its size, is loaded by a child process."""
    landing = tmp_path / "landing"
    landing.mkdir()
    row = b'1,2.5,"some text"\n' if "csv" in name else b'{"id": 1, "price": 2.5, "note": "some text"}\n'
    rows = row * (_MIB // len(row))
    header = b"id,price,note\n" if "csv" in name else b""
    pack = gzip.compress if name.endswith(".gz") else bytes
    with (landing / name).open("wb") as file:
        file.write(pack(header))
        for _ in range(_SIZE):
            file.write(pack(rows))
    fields = [("id", "long"), ("price", "double"), ("note", "string")]
    assert _load_in_a_child(tmp_path, name, fields) == _SIZE * (_MIB // len(row))


def wide_text(narrow: int) -> pa.Array:
    """Text of 8 KiB in 66,000 rows, after this number of narrow rows."""
    return pa.array(["x", "wide" * 2048]).take(int64s([0] * narrow + [1] * 66_000))


def long_lists() -> pa.Array:
    """2,500 lists of 20,000 zeros."""
    offsets = pa.array(range(0, 20_000 * 2500 + 1, 20_000), pa.int32())
    return pa.ListArray.from_arrays(offsets, np.zeros(20_000 * 2500, np.int64))


def unequal_texts() -> pa.Array:
    """600,000 texts of a kilobyte, all different."""
    return pc.binary_join_element_wise(
        literal("y" * 1000, pa.string()), pa.array(range(600_000)).cast(pa.string()), "-"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "options"),
    [
        pytest.param(lambda: wide_text(60_000), {}, id="dictionary"),
        pytest.param(lambda: wide_text(0), {"use_dictionary": False}, id="plain"),
        pytest.param(lambda: wide_text(0).dictionary_encode(), {}, id="categories"),
        pytest.param(long_lists, {}, id="lists"),
        pytest.param(unequal_texts, {"use_dictionary": False, "compression": "none"}, id="large row group"),
    ],
)
def test_a_task_that_reads_a_parquet_file_needs_less_than_512_mib(
    tmp_path: Path, column: Callable[[], pa.Array], options: dict[str, Any]
) -> None:
    (tmp_path / "landing").mkdir()
    rows = pa.table({"note": column()})
    pq.write_table(
        rows, tmp_path / "landing/a.parquet", **{"compression": "zstd", "row_group_size": len(rows), **options}
    )
    is_list = pa.types.is_list(rows.schema.field(0).type)
    kind = {"type": "array", "elementType": "long", "containsNull": True} if is_list else "string"
    count = len(rows)
    del rows
    assert _load_in_a_child(tmp_path, "a.parquet", [("note", kind)]) == count


def _load_in_a_child(folder: Path, name: str, fields: list[tuple[str, Any]]) -> int:
    """Load a file in a child process that needs less than 512 MiB; returns the number of its rows."""
    program = textwrap.dedent(
        """
        import sys
        from lakehouse_lib.ingestion.load import Load
        from lakehouse_lib.ingestion.source import Source
        from lakehouse_lib.ingestion.sources.source_format import SourceFormat
        from lakehouse_lib.schema import Schema
        folder, kind, schema = sys.argv[1:]
        paths = [f"{folder}/table", f"{folder}/landing", "erp"]
        result = Load(Source(*paths, SourceFormat(kind), Schema.from_json(schema), None, f"{folder}/quarantine")).run()
        status = open("/proc/self/status").read()  # getrusage would include the parent before the fork
        print(result.batches[0]["rows_loaded"], status.split("VmHWM:")[1].split()[0])
        """
    )
    schema = {"type": "struct", "fields": [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in fields]}
    command = [sys.executable, "-c", program, str(folder), name.split(".")[1], json.dumps(schema)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    rows_loaded, kibibytes = map(int, done.stdout.split())
    assert kibibytes < 512 << 10
    return rows_loaded
