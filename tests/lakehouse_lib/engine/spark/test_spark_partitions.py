"""Partition values come from the log, whatever folders are named, on both engines."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import DeltaTable, LogCorruptedError, PathOutsideTableError, write_deltalake
from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.spark.read.partitions import branches
from lakehouse_lib.protocol import partition_values
from lakehouse_lib.protocol.actions import STRING_MAP
from lakehouse_lib.schema import PrimitiveType
from lakehouse_lib.store import LocalStore
from tests.log_builder import data_file, field, put_table
from tests.peers import read_engine

UTC = dt.UTC
# Type, text in the log, value.
CASES: list[tuple[str, str | None, Any]] = [
    ("string", "a b", "a b"),
    ("string", "x/y=z%20é", "x/y=z%20é"),
    ("string", "", None),
    ("string", "__HIVE_DEFAULT_PARTITION__", "__HIVE_DEFAULT_PARTITION__"),
    ("string", "null", "null"),
    ("byte", "-128", -128),
    ("short", "32767", 32767),
    ("integer", "-1", -1),
    ("long", "9223372036854775807", 2**63 - 1),
    ("float", "1.5", 1.5),
    ("double", "-Infinity", float("-inf")),
    ("boolean", "true", True),
    ("binary", "\\u0000\\u00FF".replace("\\\\", "\\"), b"\x00\xff"),
    ("date", "0001-01-01", dt.date(1, 1, 1)),
    ("date", "9999-12-31", dt.date(9999, 12, 31)),
    ("decimal(10,2)", "-1.10", Decimal("-1.10")),
    ("timestamp", "2024-03-10 02:30:00", dt.datetime(2024, 3, 10, 2, 30, tzinfo=UTC)),
    ("timestamp", "2024-03-10T02:30:00.123456Z", dt.datetime(2024, 3, 10, 2, 30, 0, 123456, UTC)),
    ("timestamp", "2024-03-10T02:30:00+02:00", dt.datetime(2024, 3, 10, 0, 30, tzinfo=UTC)),
    ("timestamp_ntz", "2024-03-10 02:30:00.5", dt.datetime(2024, 3, 10, 2, 30, 0, 500000)),
    ("timestamp_ntz", "9999-12-31 23:59:59.999999", dt.datetime(9999, 12, 31, 23, 59, 59, 999999)),
]


def rows_of(engine: Engine, root: Path, **options: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_engine(engine, root, **options).to_pylist()
    return rows


NULL = partition_values.HIVE_NULL
TEXTS = [
    *(None, "", NULL, f"/{NULL}", f"//{NULL}", f"a/{NULL}", f"{NULL}/", f"%2F{NULL}", f"{NULL}\n"),
    *("%", "%25", "%zz", "/", "a/", "/a", "a//b", ".", "..", "a.", ".a", " ", "a ", " a", "\x01", "\n", "\r\t", "\x7f"),
    *(
        "\x80",
        "é",
        "e\u0301",
        "𝄞",
        "\u2028",
        "\ufeff",
        "\uffff",
        "a=b",
        "=",
        "a:b",
        "file:/x",
        "?*[]{}",
        "+",
        "\\",
        "'\"#",
    ),
]


@pytest.mark.parametrize("kind", [pa.string(), pa.binary()], ids=str)
def test_texts_that_folders_escape(tmp_path: Path, engine: Engine, kind: pa.DataType) -> None:
    values = pa.array(TEXTS, pa.string()).cast(kind)
    write_deltalake(tmp_path, pa.table({"k": range(len(TEXTS)), "p": values}), partition_by=["p"], engine=engine)
    expected = [value or None for value in values.to_pylist()]  # the empty string is null in the log
    if kind == pa.string():  # delta-rs reads the bytes in the log as text
        by_peer = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table().sort_by("k")
        assert by_peer["p"].to_pylist() == expected
    assert DeltaTable(tmp_path).to_pyarrow_table().sort_by("k")["p"].to_pylist() == expected
    assert [row["p"] for row in sorted(rows_of(engine, tmp_path), key=lambda row: row["k"])] == expected


def test_every_type_and_spelling(tmp_path: Path, engine: Engine) -> None:
    kinds = sorted({kind for kind, _, _ in CASES})
    names = {kind: f"p{number}" for number, kind in enumerate(kinds)}
    adds = [
        data_file(tmp_path, f"{number}.parquet", pa.table({"k": [number]}), partition={names[kind]: text})
        for number, (kind, text, _) in enumerate(CASES)
    ]
    missing = data_file(tmp_path, "none.parquet", pa.table({"k": [len(CASES)]}))
    fields = [field("k", "long"), *(field(name, kind) for kind, name in names.items())]
    put_table(tmp_path, fields, [*adds, missing], partition_by=list(names.values()), features=["timestampNtz"])
    read = rows_of(engine, tmp_path)
    nulls = dict.fromkeys(names.values())
    for number, (kind, _, value) in enumerate(CASES):
        assert read[number] == {"k": number, **nulls, names[kind]: value}
    assert read[-1] == {"k": len(CASES), **nulls}


def test_a_partition_value_of_another_type_is_refused(tmp_path: Path, engine: Engine) -> None:
    add = data_file(tmp_path, "p=x/a.parquet", pa.table({"k": [1]}), partition={"p": "x"})
    put_table(tmp_path, [field("k", "long"), field("p", "long")], [add], partition_by=["p"])
    with pytest.raises(LogCorruptedError, match="long"):
        rows_of(engine, tmp_path)


def test_paths_in_every_spelling_and_files_of_another_folder(tmp_path: Path, engine: Engine) -> None:
    root, other = tmp_path / "a table", tmp_path / "source, of a clone"
    spelled = {
        "p=x y/1.parquet": "p=x%20y/1.parquet",
        "p=100%/2.parquet": "p=100%25/2.parquet",
        "p=é/3.parquet": "p=%C3%A9/3.parquet",
        "4.parquet": (root / "4.parquet").as_uri(),
        "5.parquet": (root / "5.parquet").as_uri().replace("file://", "file:"),
        "6.parquet": str(root / "6.parquet").replace(" ", "%20"),
    }
    adds = [
        data_file(root, path, pa.table({"k": [number]}), log_path, partition={"p": "x y"})
        for number, (path, log_path) in enumerate(spelled.items(), 1)
    ]
    cloned = data_file(other, "p=x y/7.parquet", pa.table({"k": [7]}), partition={"p": "x y"})
    cloned["path"] = (other / "p=x y/7.parquet").as_uri()
    put_table(root, [field("k", "long"), field("p", "string")], [*adds, cloned], partition_by=["p"])
    with pytest.raises(PathOutsideTableError, match="allowed_roots"):
        rows_of(engine, root)
    read = rows_of(engine, root, storage_options={"allowed_roots": str(other)})
    assert read == [{"k": number, "p": "x y"} for number in range(1, 8)]


def test_values_of_folders_are_used_only_if_the_log_has_them() -> None:
    cases = {
        "p=x/q=1/f": True,
        "q=1/p=x/f": True,
        "w=0/p=x/q=1/f": True,
        "p=x/f": False,
        "p=y/q=1/f": False,
        "p=x/q=01/f": False,
        "p=x/p=x/q=1/f": False,
        "p=x/q=1/other/f": False,
        "k=7/p=x/q=1/f": False,
        "P=x/q=1/f": False,
        "f": False,
    }
    values = pa.array([[("p", "x"), ("q", "1")]] * len(cases), STRING_MAP)
    files = pa.table({"path": list(cases), "partitionValues": values})
    types = {"p": PrimitiveType("string"), "q": PrimitiveType("integer")}
    folders = branches(files, LocalStore("/root"), types, ["k"])
    assert [folder is not None for folder in folders.to_pylist()] == list(cases.values())
    assert len(folders.dictionary) == 3
    types["q"] = PrimitiveType("double")
    assert branches(files, LocalStore("/root"), types, ["k"]).null_count == len(cases)


@given(st.lists(st.text(st.characters(blacklist_categories=("Cs",)), min_size=1), min_size=1, max_size=5))
def test_values_of_escaped_folders_are_used(values: list[str]) -> None:
    paths = [f"{partition_values.hive_path({'p': value}, ['p'])}/f" for value in values]
    files = pa.table({"path": paths, "partitionValues": pa.array([[("p", value)] for value in values], STRING_MAP)})
    folders = branches(files, LocalStore("/root"), {"p": PrimitiveType("string")}, ["k"])
    odd = {"\n", partition_values.HIVE_NULL}
    for value, folder in zip(values, folders.to_pylist(), strict=True):
        assert folder is not None or any(part in value for part in odd), value
