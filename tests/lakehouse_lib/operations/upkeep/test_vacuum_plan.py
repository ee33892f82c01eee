"""The plan of vacuum: which of the stored files no retained version needs."""

from __future__ import annotations

import base64
import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.operations.listing import OBJECT_SCHEMA
from lakehouse_lib.operations.upkeep.unneeded_files.plan import file_needs
from lakehouse_lib.operations.upkeep.unneeded_files.scan import scan_batches
from lakehouse_lib.protocol.actions import FILE_SCHEMA, TOMBSTONE_SCHEMA
from lakehouse_lib.store import LocalStore

CUTOFF = 1_000
OLD, YOUNG = 10, 2_000
STORE = LocalStore("/tables/t")


def objects(*rows: tuple[str, int]) -> pa.Table:
    return pa.Table.from_pylist([{"path": p, "size": 1, "modified": m} for p, m in rows], schema=OBJECT_SCHEMA)


def live(*paths: str, vectors: dict[str, dict[str, object]] | None = None) -> pa.Table:
    rows = [{"path": path, "deletionVector": (vectors or {}).get(path)} for path in paths]
    return pa.Table.from_pylist(rows, schema=FILE_SCHEMA)


def removed(*rows: tuple[str, int | None]) -> pa.Table:
    return pa.Table.from_pylist([{"path": p, "deletionTimestamp": t} for p, t in rows], schema=TOMBSTONE_SCHEMA)


def planned(stored: pa.Table, files: pa.Table, tombstones: pa.Table, *partition_columns: str) -> list[str]:
    needs = file_needs(files, tombstones, CUTOFF, store=STORE, partition_columns=partition_columns)
    unneeded = scan_batches(stored.to_batches(), needs).unneeded()
    return sorted(path for table in unneeded for path in table["path"].to_pylist())


def test_expired_and_old_unknown_files_are_deleted() -> None:
    stored = objects(
        ("live.parquet", OLD),
        ("removed-long-ago.parquet", YOUNG),
        ("removed-lately.parquet", OLD),
        ("removed-without-a-time.parquet", OLD),
        ("leftover.parquet", OLD),
        ("being-written.parquet", YOUNG),
    )
    tombstones = removed(
        ("removed-long-ago.parquet", CUTOFF),
        ("removed-lately.parquet", CUTOFF + 1),
        ("removed-without-a-time.parquet", None),
    )
    assert planned(stored, live("live.parquet"), tombstones) == [
        "leftover.parquet",
        "removed-long-ago.parquet",
        "removed-without-a-time.parquet",
    ]


def test_a_file_that_was_added_again_is_kept() -> None:
    assert planned(objects(("a.parquet", OLD)), live("a.parquet"), removed(("a.parquet", OLD))) == []


@pytest.mark.parametrize(
    "spelling",
    ["a%20b/c%2520d", "/tables/t/a b/c%2520d", "file:/tables/t/a%20b/c%2520d", "file:///tables/t/a%20b/c%2520d"],
)
def test_all_spellings_of_a_path_are_one_file(spelling: str) -> None:
    if spelling.startswith("/"):
        spelling = spelling.replace(" ", "%20")
    assert planned(objects(("a b/c%20d", OLD)), live(spelling), removed()) == []
    assert planned(objects(("a b/c%20d", OLD)), live(), removed((spelling, YOUNG))) == []
    assert planned(objects(("a b/c%20d", OLD)), live(), removed((spelling, OLD))) == ["a b/c%20d"]


def test_an_outside_path_keeps_the_file_of_its_name() -> None:
    elsewhere = live("file:///link/to/t/x%20y.parquet", "s3://bucket/y.parquet")
    stored = objects(("p=1/x y.parquet", OLD), ("y.parquet", OLD), ("z.parquet", OLD))
    assert planned(stored, elsewhere, removed(("/other/z.parquet", OLD))) == ["z.parquet"]


def test_an_outside_path_keeps_a_file_with_a_percent_sign() -> None:
    stored = objects(("a%20b.parquet", OLD), ("c.parquet", OLD))
    assert planned(stored, live("file:///link/to/t/a%2520b.parquet"), removed()) == ["c.parquet"]


def test_hidden_folders_are_kept_unless_they_hold_data() -> None:
    stored = objects(
        ("_ingest/orders/1.json", OLD),
        (".hidden/a.parquet", OLD),
        ("p=1/_temporary/a.parquet", OLD),
        (".part.parquet.crc", OLD),
        ("_SUCCESS", OLD),
        ("_p=1/_q=2/a.parquet", OLD),
        ("_other=1/a.parquet", OLD),
        ("_change_data/cdc.parquet", OLD),
        ("_delta_index/i.bin", OLD),
    )
    assert planned(stored, live(), removed(), "_p", "_q") == [
        "_change_data/cdc.parquet",
        "_delta_index/i.bin",
        "_p=1/_q=2/a.parquet",
    ]


def test_files_of_a_killed_spark_job_are_deleted() -> None:
    stored = objects(
        ("spark_write=1/_temporary/0/_temporary/attempt_1/part-0.parquet", OLD),
        ("spark_write=2/_temporary/0/_temporary/attempt_1/part-0.parquet", YOUNG),
    )
    assert planned(stored, live(), removed()) == ["spark_write=1/_temporary/0/_temporary/attempt_1/part-0.parquet"]


def test_a_checksum_is_deleted_only_with_its_file() -> None:
    stored = objects(
        ("p=1/a.parquet", OLD), ("p=1/.a.parquet.crc", YOUNG), ("b.parquet", YOUNG), (".b.parquet.crc", OLD)
    )
    assert planned(stored, live(), removed()) == ["p=1/.a.parquet.crc", "p=1/a.parquet"]


def test_an_inner_table_is_kept() -> None:
    stored = objects(
        ("inner/_delta_log/00000000000000000000.json", OLD), ("inner/p=1/a.parquet", OLD), ("innermost", OLD)
    )
    assert planned(stored, live(), removed()) == ["innermost"]


def test_iceberg_metadata_is_kept() -> None:
    """Converters write this metadata beside the Delta log, for the same data files."""
    stored = objects(
        ("metadata/v2.metadata.json", OLD),
        ("metadata/version-hint.text", OLD),
        ("metadata/snap-1-1-7a.avro", OLD),
        ("metadata/stats/7a.stats", OLD),
        ("p=1/metadata/7a.metadata.json.notes", OLD),
        ("metadata.txt", OLD),
    )
    assert planned(stored, live(), removed()) == ["metadata.txt", "p=1/metadata/7a.metadata.json.notes"]


def vector_name(of: uuid.UUID) -> str:
    # base64.b85 has the digits of Z85 with another alphabet.
    base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    return base64.b85encode(of.bytes).decode().translate(str.maketrans(base85, z85))


@given(st.lists(st.uuids(), min_size=1, max_size=5, unique=True))
def test_deletion_vector_files_live_as_long_as_their_data_files(ids: list[uuid.UUID]) -> None:
    vectors = {
        f"{i}.parquet": {"storageType": "u", "pathOrInlineDv": f"{'ab' * (i % 2)}{vector_name(vector_id)}"}
        for i, vector_id in enumerate(ids)
    }
    vectors["p.parquet"] = {"storageType": "p", "pathOrInlineDv": "file:///tables/t/x/absolute.bin"}
    vectors["i.parquet"] = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"}
    names = [f"{'ab/' * (i % 2)}deletion_vector_{vector_id}.bin" for i, vector_id in enumerate(ids)]
    stored = objects(*((name, OLD) for name in names), ("x/absolute.bin", OLD), ("deletion_vector_x.bin", OLD))
    assert planned(stored, live(*vectors, vectors=vectors), removed()) == ["deletion_vector_x.bin"]


def test_the_protocols_example_of_a_vector_name() -> None:
    # PROTOCOL.md, section Deletion Vector Descriptor Schema, JSON Example 1.
    vectors = {"a.parquet": {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}}
    stored = objects(("ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", OLD))
    assert planned(stored, live("a.parquet", vectors=vectors), removed()) == []
