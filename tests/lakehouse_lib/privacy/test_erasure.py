"""Where a customer's rows are found, in tables that delta-rs wrote, compared with counts of DuckDB."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.errors import InvalidArgumentError, TableNotFoundError
from lakehouse_lib.ingestion.quarantine import Origin
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.tasks.parse import Parser
from lakehouse_lib.privacy.erasure import locate
from lakehouse_lib.privacy.keys import ColumnKeys
from lakehouse_lib.privacy.purge import prove, purge
from lakehouse_lib.privacy.subject import Subject, SubjectRows, subject_from_config
from lakehouse_lib.store import open_store
from tests.landed_files import landed
from tests.peers import read_delta_rs
from tests.table_builder import longs

SUBJECT = subject_from_config(
    {
        "id_type": "long",
        "rows": [
            {"table": "customer", "key": "c_custkey"},
            {"table": "orders", "key": "o_custkey"},
            {
                "table": "lineitem",
                "key": "l_orderkey",
                "through": {"table": "orders", "key": "o_custkey", "select": "o_orderkey"},
            },
        ],
    }
)


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, str]:
    """20 customers; 5 orders each, in 4 files; 3 line items of each order, in 4 partitions, with one key column of 32
    bits."""
    uris = {name: str(tmp_path / name) for name in ("customer", "orders", "lineitem", "orders_q")}
    customers = list(range(20))
    write_deltalake(uris["customer"], pa.table({"c_custkey": customers, "c_name": [f"n{c}" for c in customers]}))
    for part in range(4):
        keys = list(range(part * 25, part * 25 + 25))
        orders = {
            "o_orderkey": keys,
            "o_custkey": pa.array([key // 5 for key in keys], pa.int32()),
            "o_comment": ["x" * 50] * 25,
        }
        write_deltalake(uris["orders"], pa.table(orders), mode="append")
    lines = [(key, line) for key in range(100) for line in range(3)]
    items = {"l_orderkey": [key for key, _ in lines], "l_part": [str(key % 4) for key, _ in lines]}
    write_deltalake(uris["lineitem"], pa.table(items), partition_by=["l_part"])
    return uris


def with_quarantines(subject: Subject, quarantines: dict[str, str]) -> Subject:
    """The subject with the quarantine of each table and its refused rows, as the registry makes it."""
    rows: list[SubjectRows] = []
    for place in subject.rows:
        ways = [place.through]
        if place.through is not None and place.through.table in quarantines:
            ways.append(replace(place.through, table=quarantines[place.through.table], quarantine=True))
        rows += [replace(place, through=way) for way in ways]
        if place.table in quarantines:
            rows += [replace(place, table=quarantines[place.table], through=way, quarantine=True) for way in ways]
    return replace(subject, rows=tuple(rows))


def counts_by_table(tables: dict[str, str], subject_id: object = 3) -> dict[str, tuple[int, int]]:
    return {location.table: (location.rows, location.files) for location in locate(SUBJECT, subject_id, tables)}


def test_rows_are_found_directly_and_through_another_table(tables: dict[str, str]) -> None:
    customer, orders, lineitem = locate(SUBJECT, "3", tables)
    assert (customer.table, customer.uri, customer.rows, customer.files) == ("customer", tables["customer"], 1, 1)
    assert (orders.rows, orders.files, orders.version) == (5, 1, 3)
    assert (lineitem.rows, lineitem.files) == (15, 4)
    assert orders.predicate == "`o_custkey` = 3"
    assert lineitem.predicate == "`l_orderkey` IN (15, 16, 17, 18, 19)"
    assert lineitem.keys == ColumnKeys("l_orderkey", "long", (15, 16, 17, 18, 19))
    assert lineitem.table_id == DeltaTable(tables["lineitem"]).metadata().id


def test_the_predicates_delete_the_same_rows_in_other_engines(tables: dict[str, str]) -> None:
    before = {name: read_delta_rs(tables[name]) for name in ("customer", "orders", "lineitem")}
    for location in reversed(locate(SUBJECT, 3, tables)):
        # delta-rs quotes names differently.
        assert (
            DeltaTable(location.uri).delete(location.predicate.replace("`", '"'))["num_deleted_rows"] == location.rows
        )
    assert counts_by_table(tables) == {"customer": (0, 0), "orders": (0, 0), "lineitem": (0, 0)}
    after = {name: read_delta_rs(tables[name]) for name in before}
    assert after["orders"] == before["orders"].filter(pc.not_equal(before["orders"]["o_custkey"], 3))
    mask = pc.invert(pc.is_in(before["lineitem"]["l_orderkey"], value_set=pa.array([15, 16, 17, 18, 19])))
    assert after["lineitem"] == before["lineitem"].filter(mask)


def test_a_customer_without_orders_or_any_rows(tables: dict[str, str]) -> None:
    write_deltalake(tables["customer"], pa.table({"c_custkey": [77], "c_name": ["new"]}), mode="append")
    assert counts_by_table(tables, 77) == {"customer": (1, 1), "orders": (0, 0), "lineitem": (0, 0)}
    nobody = locate(SUBJECT, 2**62, tables)
    assert [location.rows for location in nobody] == [0, 0, 0]
    assert nobody[2].predicate == "FALSE"


def test_only_key_columns_of_files_that_may_match_are_read(
    tables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[tuple[int, tuple[str, ...]]] = []
    original = pq.ParquetFile.read_row_group

    def spy(file: pq.ParquetFile, i: int, columns: list[str], **more: object) -> pa.Table:
        read.append((file.metadata.num_rows, tuple(columns)))
        return original(file, i, columns, **more)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", spy)
    locate(SUBJECT, 3, tables, engine=ArrowEngine(1))
    assert "o_comment" not in {name for _, columns in read for name in columns}
    # One file of customers, one of orders for its keys and again to count, four of line items.
    assert len(read) <= 7


def test_quarantined_rows_are_found_as_text(tables: dict[str, str]) -> None:
    refused = {"o_orderkey": ["17", "500", "x"], "o_custkey": ["3", "3", "3.0"], "reason": ["price"] * 3}
    write_deltalake(tables["orders_q"], pa.table(refused))
    write_deltalake(tables["lineitem"], pa.table({"l_orderkey": [500], "l_part": ["0"]}), mode="append")
    located = locate(with_quarantines(SUBJECT, {"orders": "orders_q"}), 3, tables)
    by_table = {location.table: location for location in located}
    assert list(by_table) == ["customer", "orders", "orders_q", "lineitem"]
    assert (by_table["orders_q"].rows, by_table["orders_q"].predicate) == (2, "`o_custkey` = '3'")
    assert by_table["lineitem"].rows == 16
    assert by_table["lineitem"].predicate == "`l_orderkey` IN (15, 16, 17, 18, 19, 500)"


def refused(folder: Path, content: str, schema: pa.Schema) -> pa.Table:
    """The rows that a load of a CSV file with this content puts into quarantine."""
    (folder / "landing").mkdir(exist_ok=True)
    (folder / "landing" / "a.csv").write_text(content)
    parser = Parser(SourceFormat("csv"), schema, (), open_store(folder / "staging").limits)
    blocks = parser.read(landed(folder / "landing" / "a.csv"), Origin("crm", 0, "a.csv"), 0)
    return pa.concat_tables([block.rejected for block in blocks])


SPELLED = ("4711", "0004711", "+4711", "4711.0", "4.711e3", "-04711", " 4711", "47110", "4711x", "14711", "")


@pytest.mark.parametrize(
    ("key", "matches", "ill_typed"),
    [
        (pa.int64(), {"4711", "0004711", "+4711"}, {"4711.0", "4.711e3", " 4711", "4711x", ""}),
        (pa.int32(), {"4711", "0004711", "+4711"}, {"4711.0", "4.711e3", " 4711", "4711x", ""}),
        (pa.decimal128(12, 2), {"4711", "0004711", "+4711", "4711.0", "4.711e3"}, {" 4711", "4711x", ""}),
        (pa.string(), {"4711"}, set()),
    ],
    ids=["long", "integer", "decimal", "string"],
)
def test_a_quarantined_key_is_what_the_load_would_have_read(
    tmp_path: Path, key: pa.DataType, matches: set[str], ill_typed: set[str]
) -> None:
    schema = pa.schema([("price", pa.decimal128(15, 2)), ("key", key)])
    rows = refused(tmp_path, "price,key\n" + "".join(f'twelve,"{text}"\n' for text in SPELLED), schema)
    assert rows["key"].to_pylist() == list(SPELLED)
    tables = {"t": str(tmp_path / "t"), "q": str(tmp_path / "q")}
    write_deltalake(tables["t"], schema.empty_table())
    write_deltalake(tables["q"], rows)
    subject = subject_from_config({"id_type": "long", "rows": [{"table": "t", "key": "key"}]})
    _, location = locate(with_quarantines(subject, {"t": "q"}), 4711, tables)
    assert location.rows == len(matches)
    # Every record is found. The other records fail by their price first, and belong to no person.
    assert location.unattributed is not None
    assert location.unattributed.records == len(ill_typed)
    assert prove(location.uri, location.unattributed.predicate).rows == len(ill_typed)
    DeltaTable(location.uri).delete(location.predicate.replace("`", '"'))
    left = read_delta_rs(location.uri)["key"].to_pylist()
    assert sorted(left) == sorted(set(SPELLED) - matches)
    purge(location.uri, location.predicate)
    assert prove(location.uri, location.predicate).clean
    on_disk = {
        text for file in Path(location.uri).rglob("*.parquet") for text in pq.read_table(file)["key"].to_pylist()
    }
    assert not on_disk & matches


def test_spellings_that_only_old_files_hold_are_found(tmp_path: Path) -> None:
    tables = {"t": str(tmp_path / "t"), "q": str(tmp_path / "q")}
    write_deltalake(tables["t"], longs(key=[]))
    write_deltalake(tables["q"], pa.table({"key": ["017", "18"]}))
    DeltaTable(tables["q"]).delete("key = '017'")
    (tmp_path / "q" / "torn.parquet").write_bytes(b"PAR1 and then nothing")
    subject = subject_from_config({"id_type": "long", "rows": [{"table": "t", "key": "key"}]})
    _, location = locate(with_quarantines(subject, {"t": "q"}), 17, tables)
    assert (location.rows, location.predicate) == (0, "`key` IN ('017', '17')")
    assert prove(location.uri, location.predicate).rows == 1


def test_keys_found_through_a_quarantine_are_read_as_the_load_reads_them(tables: dict[str, str]) -> None:
    uris = tables | {"lineitem_q": tables["orders_q"] + "_items"}
    refused_orders = {"o_orderkey": ["0000500", "501", "x1"], "o_custkey": ["03", "3", "003"]}
    write_deltalake(uris["orders_q"], pa.table(refused_orders))
    write_deltalake(uris["lineitem"], pa.table({"l_orderkey": [500, 501], "l_part": ["0", "0"]}), mode="append")
    write_deltalake(uris["lineitem_q"], pa.table({"l_orderkey": ["500", "00501", "0017", "5000", "x1"]}))
    subject = with_quarantines(SUBJECT, {"orders": "orders_q", "lineitem": "lineitem_q"})
    by_table = {location.table: location for location in locate(subject, 3, uris)}
    assert by_table["orders_q"].rows == 3
    assert by_table["lineitem"].predicate == "`l_orderkey` IN (15, 16, 17, 18, 19, 500, 501)"
    assert by_table["lineitem_q"].rows == 4


def test_names_that_look_like_numbers_are_distinct(tmp_path: Path) -> None:
    tables = {"t": str(tmp_path / "t"), "q": str(tmp_path / "q")}
    for uri in tables.values():
        write_deltalake(uri, pa.table({"key": ["17", "017"]}))
    subject = subject_from_config({"id_type": "string", "rows": [{"table": "t", "key": "key"}]})
    assert [location.rows for location in locate(with_quarantines(subject, {"t": "q"}), "17", tables)] == [1, 1]


def test_a_quarantine_that_does_not_exist_has_no_rows(tables: dict[str, str]) -> None:
    located = locate(with_quarantines(SUBJECT, {"orders": "orders_q"}), 3, tables)
    assert [location.table for location in located] == ["customer", "orders", "lineitem"]


def test_a_string_subject_is_quoted(tmp_path: Path) -> None:
    nasty = "o'hara\\' OR 1=1 --"
    write_deltalake(tmp_path / "t", pa.table({"weird name": [nasty, "other", None], "n": [1, 2, 3]}))
    subject = subject_from_config({"id_type": "string", "rows": [{"table": "t", "key": "weird name"}]})
    assert [location.rows for location in locate(subject, nasty, {"t": str(tmp_path / "t")})] == [1]
    assert [location.rows for location in locate(subject, "' OR '1'='1", {"t": str(tmp_path / "t")})] == [0]


@pytest.mark.parametrize("wrong", ["", "abc", None, "1 OR 1=1"])
def test_a_wrong_identifier_is_refused_before_a_file_is_read(wrong: object) -> None:
    with pytest.raises(InvalidArgumentError, match="subject_id is"):
        locate(SUBJECT, wrong, dict.fromkeys(("customer", "orders", "lineitem"), "/nowhere"))


def test_a_missing_or_unnamed_table_is_refused(tables: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="'customer' has no location"):
        locate(SUBJECT, 3, {})
    with pytest.raises(TableNotFoundError, match="nowhere"):
        locate(SUBJECT, 3, tables | {"orders": str(tmp_path / "nowhere")})


def test_a_key_that_is_not_a_column_or_has_no_key_type_is_refused(tables: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"DELTA_COLUMN_NOT_FOUND.*customer"):
        locate(subject_from_config({"id_type": "long", "rows": [{"table": "customer", "key": "id"}]}), 3, tables)
    write_deltalake(tmp_path / "d", pa.table({"key": [1.5]}))
    with pytest.raises(InvalidArgumentError, match="key of d is double"):
        locate(
            subject_from_config({"id_type": "long", "rows": [{"table": "d", "key": "key"}]}),
            3,
            {"d": str(tmp_path / "d")},
        )


def test_a_selected_fraction_is_refused_as_a_key_and_not_shown(tables: dict[str, str]) -> None:
    DeltaTable(tables["orders"]).delete()
    write_deltalake(
        tables["orders"],
        pa.table({"o_orderkey": [Decimal("4711.25")], "o_custkey": [3]}),
        mode="overwrite",
        schema_mode="overwrite",
    )
    with pytest.raises(InvalidArgumentError, match="column o_orderkey of orders") as refused:
        locate(SUBJECT, 3, tables)
    assert refused.value.code == "DELTA_INVALID_SUBJECT"
    assert "4711" not in str(refused.value)


@pytest.mark.parametrize("value", [True, float("nan"), 1.0, dt.date(2026, 1, 1), b"1", {"id": 1}])
def test_a_selected_column_of_another_type_is_refused(tables: dict[str, str], value: object) -> None:
    orders = pa.table({"o_orderkey": [value], "o_custkey": [3]})
    write_deltalake(tables["orders"], orders, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(
        InvalidArgumentError, match=r"key column o_orderkey of orders is .*; expected a string"
    ) as refused:
        locate(SUBJECT, 3, tables)
    assert refused.value.code == "DELTA_INVALID_SUBJECT"
