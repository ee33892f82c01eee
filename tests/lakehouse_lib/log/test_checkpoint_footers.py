"""Damaged footers of checkpoints are ignored or refused, and never end the process."""

import io
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib.errors import DeltaError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.checkpoint.footer.parquet_footer import chunk_statistics
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from lakehouse_lib.table.delta_table import DeltaTable
from tests.log_builder import add, put
from tests.table_builder import paths_of

ROOT = Path(__file__).parents[3]
FLIPS = 400


def table_of(folder: Path) -> LocalStore:
    """A table with two commits and a checkpoint of the last version."""
    store = put(folder, 0, add("a", stats='{"numRecords":1}'), add("b"))
    put(folder, 1, add("c", tags={"t": "1"}))
    DeltaTable(folder).create_checkpoint()
    return store


def flipped(data: bytes, seed: int) -> bytes:
    """The bytes with one or two flipped bits in the footer."""
    rng = random.Random(seed)
    length = int.from_bytes(data[-8:-4], "little")
    corrupted = bytearray(data)
    for _ in range(rng.choice((1, 2))):
        corrupted[len(data) - 8 - rng.randrange(length) - 1] ^= 1 << rng.randrange(8)
    return bytes(corrupted)


def read_all(folder: Path) -> None:
    """The test below runs this in its own process: prints how many of the damaged checkpoints were ignored."""
    store = table_of(folder)
    whole = store.read(file_names.checkpoint(1))
    passed_over = 0
    for seed in range(FLIPS):
        store.put(file_names.checkpoint(1), flipped(whole, seed))
        try:
            snapshot = load_snapshot(store)
            snapshot.files.to_pylist()
            passed_over += snapshot.checkpoint_version is None
        except DeltaError:
            continue
    print(passed_over)


@pytest.mark.slow
def test_a_damaged_footer_does_not_end_the_process(tmp_path):
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); from pathlib import Path; "
        "from tests.lakehouse_lib.log.test_checkpoint_footers import read_all; "
        f"read_all(Path({str(tmp_path)!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > FLIPS // 4


@pytest.mark.slow
def test_some_generated_footers_contradict_their_schema(tmp_path):
    """Otherwise the test above would not have the footers that end the process."""
    whole = table_of(tmp_path).read(file_names.checkpoint(1))
    unsound = 0
    for seed in range(4_000):
        try:
            statistics = chunk_statistics(pq.ParquetFile(io.BytesIO(flipped(whole, seed))).metadata)
        except (pa.ArrowException, ValueError, OSError):
            continue
        unsound += not all(chunk.sound for group in statistics for chunk in group)
    assert unsound > 20


@pytest.mark.parametrize("size_statistics", [True, False])
def test_a_valid_footer_has_the_statistics_of_pyarrow(tmp_path, size_statistics):
    data = pa.table(
        {
            "a": [1, None, 3, None],
            "b": ["x", "y", None, "z"],
            "c": [[1.5], [], None, [None, 2.0]],
            "d": [{"e": True}, None, {"e": None}, {"e": False}],
            "f": pa.array([None] * 4, pa.binary(3)),
        }
    )
    pq.write_table(data, tmp_path / "f", row_group_size=3, write_statistics=size_statistics or ["a"])
    footer = pq.ParquetFile(tmp_path / "f").metadata
    statistics = chunk_statistics(footer)
    assert len(statistics) == 2
    for number, group in enumerate(statistics):
        for index, chunk in enumerate(group):
            expected = footer.row_group(number).column(index).statistics
            assert chunk.sound
            assert chunk.null_count == (
                expected.null_count if expected is not None and expected.has_null_count else None
            )


def test_a_checkpoint_with_a_damaged_footer_leaves_the_commits(tmp_path):
    store = table_of(tmp_path)
    whole = store.read(file_names.checkpoint(1))
    store.put(file_names.checkpoint(1), whole[:-9] + b"\xff" + whole[-8:])
    assert paths_of(load_snapshot(store)) == ["a", "b", "c"]
