"""Loads of every format, from a folder and from a real S3 server, are killed (SIGKILL) at random moments.

Afterwards the table has each row once, and the quarantine each rejected row once.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv, orc

from lakehouse_lib.ingestion.load import Load
from lakehouse_lib.ingestion.source import Source
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.schema import Field, Schema
from lakehouse_lib.store import open_store
from tests.s3.server import Versity

KILLS = 3  # of each format in each kind of location
FILES, ROWS = 4, 5_000
SCHEMA = Schema([Field("id", "long", nullable=False), Field("price", "double")])
RULE = {
    "type": "expect_column_values_to_be_between",
    "kwargs": {"column": "price", "min_value": 0},
    "meta": {"rule_id": "price not negative"},
}
SUITE = {"name": "sales", "expectations": [RULE]}
LOADER = """
import sys
from tests.s3.load_kills import loop
loop(*sys.argv[1:])
"""


def _csv(rows: pa.Table) -> bytes:
    content = io.BytesIO()
    csv.write_csv(rows, content)
    return content.getvalue()


def _stored(write: Callable[..., None]) -> Callable[[pa.Table], bytes]:
    def content(rows: pa.Table) -> bytes:
        file = io.BytesIO()
        write(rows, file)
        return file.getvalue()

    return content


#: File name's end -> format and the content of a file.
FORMATS: dict[str, tuple[str, Callable[[pa.Table], bytes]]] = {
    "csv": ("csv", _csv),
    "csv.gz": ("csv", lambda rows: gzip.compress(_csv(rows))),
    "jsonl": ("json", lambda rows: "\n".join(map(json.dumps, rows.to_pylist())).encode()),
    "json": ("json_array", lambda rows: json.dumps(rows.to_pylist()).encode()),
    "parquet": ("parquet", _stored(pq.write_table)),
    "orc": ("orc", _stored(orc.write_table)),
}


def source(folder: str, kind: str, options: dict[str, str] | None) -> Source:
    table, landing, quarantine = (f"{folder}/{name}" for name in ("table", "landing", "quarantine"))
    by_location = {location: options for location in (table, landing, quarantine) if options}
    plain = Source(table, landing, "erp", SourceFormat(kind), SCHEMA, SUITE, quarantine, storage_options=by_location)
    return replace(plain, files_per_batch=2)


def loop(folder: str, kind: str) -> None:
    """Load until the process is killed; the options of the store are in the environment, as JSON."""
    options = json.loads(os.environ["OPTIONS"])
    Load(source(folder, kind, options)).run()  # imports what a load needs
    print("ready", flush=True)
    while True:
        Load(source(folder, kind, options)).run()


@pytest.mark.parametrize("name_end", FORMATS)
@pytest.mark.parametrize("place", ["folder", "s3"])
def test_killed_loads_load_and_reject_each_row_once(
    server: Versity, location: str, tmp_path: Path, place: str, name_end: str
) -> None:
    numbers = random.Random(f"{place} {name_end}")
    folder, options = (str(tmp_path), None) if place == "folder" else (location, server.options)
    kind, content = FORMATS[name_end]
    landing = open_store(f"{folder}/landing", options)
    landing.make_root()
    environment = {**os.environ, "OPTIONS": json.dumps(options)}
    command = [sys.executable, "-c", LOADER, folder, kind]
    rejected = []
    landed = 0
    for kill in range(KILLS):
        with subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=Path(__file__).parents[2]
        ) as loader:
            assert loader.stdout is not None
            assert loader.stderr is not None
            assert loader.stdout.readline() == b"ready\n", loader.stderr.read().decode()
            for number in range(FILES):
                name = f"{kill}-{number}.{name_end}"
                prices = [-1.0 if index == number else index / 2 for index in range(ROWS)]
                rows = pa.table({"id": range(landed, landed + ROWS), "price": prices})
                landing.put(name, content(rows))
                rejected.append((name, landed + number))
                landed += ROWS
            time.sleep(numbers.uniform(0, 0.8))
            assert loader.poll() is None, loader.stderr.read().decode()
            loader.send_signal(signal.SIGKILL)
        unsettled = Load(source(folder, kind, options)).history.unsettled
        print("killed", "between batches" if unsettled is None else f"within batch {unsettled.number}")
    Load(source(folder, kind, options)).run()
    assert Load(source(folder, kind, options)).nothing_to_do() is not None
    bad = {row for _, row in rejected}
    assert _rows(folder, "table", options)["id"].sort().to_pylist() == [row for row in range(landed) if row not in bad]
    refused = _rows(folder, "quarantine", options).to_pylist()
    assert sorted((row["_file"], int(row["id"])) for row in refused) == sorted(rejected)


def _rows(folder: str, name: str, options: dict[str, str] | None) -> Any:
    """The rows of a table, as delta-rs reads them."""
    return deltalake.DeltaTable(f"{folder}/{name}", storage_options=options).to_pyarrow_table().combine_chunks()
