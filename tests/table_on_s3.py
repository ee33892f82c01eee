"""Tests of a table in S3 on any server: every verb of the library, with delta-rs as a second reader and writer."""

from __future__ import annotations

from collections.abc import Mapping

import deltalake
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import DeltaTable, write_deltalake


def rows(start: int, count: int = 100) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(start, start + count), pa.int64()),
            "shop": pa.array([f"shop {number % 4}" for number in range(count)]),
            "amount": pa.array([number / 3 for number in range(start, start + count)]),
        }
    )


def delta_rs_options(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in options.items() if name.startswith("aws_")}


def ids(table: pa.Table) -> list[int]:
    return sorted(table["id"].to_pylist())


def delta_rs_ids(uri: str, options: Mapping[str, str], version: int | None = None) -> list[int]:
    """The ids that delta-rs reads."""
    table = deltalake.DeltaTable(uri, version=version, storage_options=delta_rs_options(options)).to_pyarrow_table()
    return sorted(table["id"].to_pylist())


def every_verb(uri: str, options: dict[str, str]) -> None:
    """Create, append, delete, compact, z-order, checkpoint, time travel, vacuum, pin; delta-rs reads each version and
    writes."""
    expected: dict[int, list[int]] = {}

    def check(table: DeltaTable) -> None:
        expected[table.version()] = ids(table.to_pyarrow_table())
        assert delta_rs_ids(uri, options) == expected[table.version()]

    assert not DeltaTable.is_deltatable(uri, options)
    write_deltalake(uri, rows(0), partition_by="shop", storage_options=options)
    assert DeltaTable.is_deltatable(uri, options)
    table = DeltaTable(uri, storage_options=options)
    check(table)
    for start in (100, 200):
        write_deltalake(table, rows(start), mode="append")
        check(table)
    assert ids(table.to_pyarrow_table()) == list(range(300))

    assert table.delete("id >= 250 OR shop = 'shop 1'")["num_deleted_rows"] == 113
    check(table)
    assert len(table.files("shop = 'shop 2'")) == 3
    assert table.to_pyarrow_table(filters="shop = 'shop 2' AND id < 50", columns=["id"]).num_rows == 12
    assert table.optimize.compact()["numFilesRemoved"] > 0
    check(table)

    # delta-rs writes to the table while both libraries have it open.
    more = rows(1000, 40)
    deltalake.write_deltalake(uri, more, mode="append", storage_options=delta_rs_options(options))
    write_deltalake(table, rows(2000, 40), mode="append")
    check(table)
    assert pc.sum(pc.greater_equal(table.to_pyarrow_table()["id"], 1000)).as_py() == 80
    assert [entry["version"] for entry in table.history()] == list(range(table.version(), -1, -1))

    assert table.optimize.z_order(["id"], target_size=3_000)["numFilesAdded"] > 0
    check(table)
    table.create_checkpoint()
    assert ids(DeltaTable(uri, storage_options=options).to_pyarrow_table()) == expected[table.version()]
    for version, expected_ids in expected.items():
        assert (
            ids(DeltaTable(uri, version, options).to_pyarrow_table())
            == expected_ids
            == delta_rs_ids(uri, options, version)
        )

    dataset = table.to_pyarrow_dataset()
    assert ids(dataset.to_table(columns=["id"])) == expected[table.version()]
    assert dataset.to_table(filter=(pc.field("shop") == "shop 2") & (pc.field("id") < 50)).num_rows == 12
    assert all(file_uri.startswith((f"{uri}/shop=shop%20", f"{uri}/shop=shop ")) for file_uri in table.file_uris())
    assert table.count() == len(expected[table.version()])
    assert table.health().to_dict()
    assert table.detail()["location"] == uri

    live = set(table.file_uris())
    gone = table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert gone
    assert live == set(table.file_uris())
    stored = [meta.path for meta in table.store.walk() if not meta.path.startswith("_delta_log/")]
    assert {f"{uri}/{path}" for path in stored} == live
    check(table)
    write_deltalake(table, rows(0, 10), mode="overwrite")
    check(table)
    assert expected[table.version()] == list(range(10))

    pinned = sorted(expected)[-2]
    assert table.pin("before-the-overwrite", pinned) == pinned
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    assert delta_rs_ids(uri, options, pinned) == expected[pinned]
    assert table.release("before-the-overwrite") == pinned
    assert table.vacuum(retention_hours=0, enforce_retention_duration=False)
