"""Writer properties: the same properties give files with the same settings as those of delta-rs, on both engines."""

from __future__ import annotations

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lakehouse_lib
from lakehouse_lib import (
    BloomFilterProperties,
    ColumnProperties,
    DeltaTable,
    WriterProperties,
    write_deltalake,
)
from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.base import Engine
from tests.peers import parquet_files, plain, read_by_all
from tests.slow_cases import some_slow

ROOT = Path(__file__).parents[3]
ROWS = 2_500


def rows(count: int = ROWS) -> pa.Table:
    numbers = range(count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "kind": [f"kind {number % 5}" for number in numbers],
            "text": [f"{number:050d}" for number in numbers],
            "share": pa.array([number / 7 for number in numbers], pa.float64()),
            "is_odd": [number % 2 == 1 for number in numbers],
            "point": [{"x": number, "label": f"l{number % 3}"} for number in numbers],
        }
    )


def properties(package: Any, **arguments: Any) -> Any:
    """``WriterProperties`` of a package; column properties are passed as dictionaries of their arguments."""

    def column(own: dict[str, Any]) -> Any:
        bloom = own.get("bloom_filter_properties")
        return package.ColumnProperties(
            **{**own, "bloom_filter_properties": None if bloom is None else package.BloomFilterProperties(**bloom)}
        )

    arguments = dict(arguments)
    if "default_column_properties" in arguments:
        arguments["default_column_properties"] = column(arguments["default_column_properties"])
    if "column_properties" in arguments:
        arguments["column_properties"] = {name: column(own) for name, own in arguments["column_properties"].items()}
    return package.WriterProperties(**arguments)


def settings(root: Path) -> list[dict[str, Any]]:
    """What the footers of a table's files say about row groups and columns."""
    groups = []
    for path in parquet_files(root):
        footer = pq.read_metadata(path)
        for group in (footer.row_group(number) for number in range(footer.num_row_groups)):
            columns = [group.column(number) for number in range(group.num_columns)]
            groups.append(
                {"rows": group.num_rows}
                | {
                    column.path_in_schema: {
                        "codec": column.compression,
                        "dictionary": column.has_dictionary_page,
                        "encodings": {*column.encodings} - {"RLE"},
                        "statistics": column.is_stats_set,
                        "page index": column.has_column_index,
                        "bloom filter": column.bloom_filter_offset is not None,
                    }
                    for column in columns
                }
            )
    return sorted(groups, key=lambda group: group["rows"])


#: Without this, the writer samples the rows to decide about dictionaries, and delta-rs uses them for all columns.
DICTIONARIES = {"default_column_properties": {"dictionary_enabled": True}}


@pytest.mark.parametrize(
    "arguments",
    [
        {"compression": "SNAPPY", "max_row_group_size": 700, **DICTIONARIES},
        {"compression": "gzip", "compression_level": 3, **DICTIONARIES},
        {"compression": "BROTLI", **DICTIONARIES},
        {"compression": "ZSTD", "compression_level": 7, **DICTIONARIES},
        {"compression": "UNCOMPRESSED", "default_column_properties": {"dictionary_enabled": False}},
        {
            "compression": "ZSTD",
            "default_column_properties": {"dictionary_enabled": False, "statistics_enabled": "PAGE"},
            "column_properties": {
                "id": {"statistics_enabled": "NONE"},
                "share": {"statistics_enabled": "NONE", "dictionary_enabled": True},
                "kind": {"dictionary_enabled": True, "bloom_filter_properties": {"set_bloom_filter_enabled": True}},
            },
        },
        {
            "compression": "SNAPPY",
            "default_column_properties": {"dictionary_enabled": True, "statistics_enabled": "CHUNK"},
            "column_properties": {
                "id": {"encoding": "DELTA_BINARY_PACKED"},
                "text": {"encoding": "DELTA_BYTE_ARRAY"},
                "kind": {"encoding": "DELTA_LENGTH_BYTE_ARRAY"},
                "share": {"encoding": "BYTE_STREAM_SPLIT"},
            },
        },
        {
            "compression": "SNAPPY",
            "default_column_properties": {"dictionary_enabled": True, "statistics_enabled": "NONE"},
        },
    ],
)
def test_files_have_the_settings_of_those_of_delta_rs(tmp_path: Path, arguments: dict[str, Any]) -> None:
    write_deltalake(tmp_path / "ours", rows(), writer_properties=properties(lakehouse_lib, **arguments))
    of_delta_rs = properties(deltalake, **arguments)
    deltalake.write_deltalake(tmp_path / "theirs", rows(), writer_properties=of_delta_rs)
    groups, expected = settings(tmp_path / "ours"), settings(tmp_path / "theirs")
    assert without_dictionaries_of_booleans(groups) == without_dictionaries_of_booleans(expected)
    assert read_by_all(tmp_path / "ours") == plain(rows())


def without_dictionaries_of_booleans(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """delta-rs names a dictionary among the encodings of booleans, although Parquet has none."""
    return [group | {"is_odd": group["is_odd"] | {"dictionary": None, "encodings": None}} for group in groups]


ENCODINGS = {
    "id": ["PLAIN", "DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT"],
    "kind": ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"],
    "text": ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"],
    "share": ["PLAIN", "BYTE_STREAM_SPLIT"],
    "is_odd": ["PLAIN", "RLE"],
}


@st.composite
def property_arguments(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments for which both packages promise the same settings.

    All columns with statistics have them at the same level, because pyarrow has one switch for the page index.
    """
    level = draw(st.sampled_from(["CHUNK", "PAGE"]))
    statistics = st.sampled_from(["NONE", level])
    columns: dict[str, dict[str, Any]] = {}
    for name in draw(st.sets(st.sampled_from([*ENCODINGS]))):
        encoding = draw(st.none() | st.sampled_from(ENCODINGS[name]))
        columns[name] = {"encoding": encoding, "statistics_enabled": draw(st.none() | statistics)}
        if encoding is None:
            columns[name]["dictionary_enabled"] = draw(st.booleans())
        if name != "is_odd" and draw(st.booleans()):
            columns[name]["bloom_filter_properties"] = {"set_bloom_filter_enabled": True, "fpp": 0.1, "ndv": 100}
    return {
        "compression": draw(st.sampled_from(["UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "BROTLI", "LZ4_RAW"])),
        "max_row_group_size": draw(st.none() | st.integers(500, 3_000)),
        "default_column_properties": {
            "dictionary_enabled": draw(st.booleans()),
            "statistics_enabled": draw(statistics),
        },
        "column_properties": columns,
    }


@pytest.mark.slow
@given(property_arguments())
def test_random_properties_give_the_settings_of_delta_rs(arguments: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        groups = []
        for package in (lakehouse_lib, deltalake):
            root = Path(folder) / package.__name__
            package.write_deltalake(root, rows(), writer_properties=properties(package, **arguments))
            groups.append(without_dictionaries_of_booleans(settings(root)))
        assert groups[0] == groups[1]
        assert DeltaTable(Path(folder) / "lakehouse_lib").to_pyarrow_table() == rows()


def bounds(root: Path) -> dict[str, Any]:
    stats: dict[str, Any] = json.loads(DeltaTable(root).snapshot.files["stats"][0].as_py())
    return stats


def test_columns_without_statistics_have_none_in_the_log(tmp_path: Path) -> None:
    nan = rows().set_column(3, "share", pa.array([math.nan, *range(ROWS - 1)], pa.float64()))
    none = ColumnProperties(statistics_enabled="NONE")
    write_deltalake(
        tmp_path, nan, writer_properties=WriterProperties(column_properties={"share": none, "id": none, "point": none})
    )
    stats = bounds(tmp_path)
    assert {*stats["minValues"]} == {*stats["maxValues"]} == {"kind", "text"}
    assert {*stats["nullCount"]} == {"kind", "text", "is_odd"}
    assert DeltaTable(tmp_path).to_pyarrow_table(filters="share > 1000").num_rows == ROWS - 1001


def test_strings_are_cut_in_the_statistics_of_the_log(tmp_path: Path) -> None:
    long = pa.table({"text": ["a" * 100, "b" * 100]})
    for length, low, high in (
        (5, "aaaaa", "bbbbb\x7f"),
        (100, "a" * 100, "b" * 100),
        (None, "a" * 32, "b" * 32 + "\x7f"),
    ):
        root = tmp_path / str(length)
        write_deltalake(root, long, writer_properties=WriterProperties(statistics_truncate_length=length))
        assert (bounds(root)["minValues"]["text"], bounds(root)["maxValues"]["text"]) == (low, high)
        assert DeltaTable(root).to_pyarrow_table(filters=f"text = '{'b' * 100}'").num_rows == 1


def test_pages_end_at_the_limits(tmp_path: Path) -> None:
    plain = {"default_column_properties": ColumnProperties(dictionary_enabled=False), "compression": "UNCOMPRESSED"}
    write_deltalake(tmp_path / "large", rows(), writer_properties=WriterProperties(**plain))
    for name, limit in (
        ("rows", {"data_page_row_count_limit": 10}),
        ("bytes", {"data_page_size_limit": 100, "write_batch_size": 10}),
    ):
        write_deltalake(tmp_path / name, rows(), writer_properties=WriterProperties(**plain, **limit))
        size, large = (sum(path.stat().st_size for path in parquet_files(tmp_path / each)) for each in (name, "large"))
        assert size > large + 10_000  # headers and index entries of hundreds of pages
    dictionary = ColumnProperties(dictionary_enabled=True)
    limited = WriterProperties(dictionary_page_size_limit=100, default_column_properties=dictionary)
    write_deltalake(tmp_path / "dictionary", rows(100_000), writer_properties=limited)
    (group,) = settings(tmp_path / "dictionary")
    assert "PLAIN" in group["text"]["encodings"]  # after the dictionary is full


def written_by(verb: str, root: Path, engine: Engine, own_properties: WriterProperties) -> None:
    """Run a verb on a table of two files."""
    data = rows()
    for _ in range(2):
        write_deltalake(root, data, mode="append", partition_by=["kind"])
    table = DeltaTable(root, engine=engine)
    for path in parquet_files(root):
        path.with_suffix(".before").hardlink_to(path)
    if verb == "write":
        write_deltalake(table, data, mode="append", writer_properties=own_properties)
    elif verb == "delete":
        table.delete("id % 2 = 0", own_properties)
    elif verb == "update":
        table.update({"id": "id + 1"}, None, "id % 2 = 0", own_properties)
    elif verb == "merge":
        source = data.slice(0, 100).append_column("new", pa.array([True] * 100))
        merger = table.merge(source, "s.id = t.id and t.text = 'x'", "s", "t", False, True, own_properties)
        merger.when_not_matched_insert_all(except_cols=["new"]).execute()
    elif verb == "compact":
        table.optimize.compact([("kind", "=", "kind 1")], None, None, None, None, None, own_properties)
    elif verb == "z_order":
        table.optimize.z_order(["id"], [("kind", "=", "kind 1")], None, None, None, None, None, own_properties)


@pytest.mark.parametrize("verb", some_slow(["write", "update", "compact", "delete", "merge", "z_order"], 3))
def test_each_verb_writes_by_its_properties(tmp_path: Path, engine: Engine, verb: str) -> None:
    own_properties = WriterProperties(
        compression="GZIP", max_row_group_size=40, column_properties={"text": ColumnProperties(dictionary_enabled=True)}
    )
    written_by(verb, tmp_path, engine, own_properties)
    new = [path for path in parquet_files(tmp_path) if not path.with_suffix(".before").exists()]
    assert new
    for path in new:
        footer = pq.read_metadata(path)
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        assert all(group.num_rows == 40 for group in groups[:-1])
        assert groups[-1].num_rows <= 40
        assert {group.column(number).compression for group in groups for number in range(group.num_columns)} == {"GZIP"}
        assert all(group.column(1).has_dictionary_page for group in groups)  # text, after id: kind is in the log
    if verb in ("compact", "z_order"):
        assert all("kind%201" in str(path) or "kind 1" in str(path) for path in new)
    read_by_all(tmp_path)  # all readers agree


@pytest.mark.parametrize("codec", ["SNAPPY", "GZIP", "ZSTD", "LZ4_RAW", "UNCOMPRESSED", "BROTLI"])
def test_spark_writes_a_frame_with_each_codec(tmp_path: Path, spark: Any, codec: str) -> None:
    frame = spark.range(1000).selectExpr("id", "concat('name ', id) AS name")
    write_deltalake(tmp_path, frame, writer_properties=WriterProperties(compression=codec))
    codecs = {group["name"]["codec"] for group in settings(tmp_path)}
    assert codecs == {"LZ4" if codec == "LZ4_RAW" else codec}
    is_of_spark = all(path.parent.name.startswith("spark_write=") for path in parquet_files(tmp_path))
    assert is_of_spark == (codec != "BROTLI")
    assert read_by_all(tmp_path) == plain(frame.toArrow())


def test_columns_have_physical_names_under_column_mapping(tmp_path: Path) -> None:
    own_properties = WriterProperties(column_properties={"Name Of It": ColumnProperties(encoding="DELTA_BYTE_ARRAY")})
    data = pa.table({"id": [1, 2], "name of it": ["a", "b"]})
    mapped = {"delta.columnMapping.mode": "name"}
    write_deltalake(tmp_path, data, configuration=mapped, writer_properties=own_properties)
    (group,) = settings(tmp_path)
    assert ["DELTA_BYTE_ARRAY" in column["encodings"] for name, column in group.items() if name != "rows"] == [
        False,
        True,
    ]
    assert DeltaTable(tmp_path).to_pyarrow_table() == data


def test_the_attribute_for_the_compression_has_the_level_as_in_delta_rs() -> None:
    for codec in ("UNCOMPRESSED", "snappy", "Gzip", "BROTLI", "LZ4", "ZSTD", "LZ4_RAW"):
        assert (
            WriterProperties(compression=codec).compression == deltalake.WriterProperties(compression=codec).compression
        )
    assert WriterProperties(compression="SNAPPY", compression_level=3).compression == "SNAPPY"


def test_a_bloom_filter_is_written_if_it_is_on_or_described() -> None:
    assert BloomFilterProperties(True).is_on
    assert BloomFilterProperties(None, fpp=0.1).is_on
    assert not BloomFilterProperties(None).is_on
    assert not BloomFilterProperties(False, ndv=3).is_on


def test_row_ids_are_kept_with_properties_of_all_columns(tmp_path: Path) -> None:
    write_deltalake(tmp_path, rows(), configuration={"delta.enableRowTracking": "true"})
    table = DeltaTable(tmp_path, engine=ArrowEngine())
    before = table.scan(["id"], row_ids=True).read_all().to_pydict()
    plain = ColumnProperties(encoding="PLAIN", statistics_enabled="NONE")
    table.delete("id < 100", WriterProperties(default_column_properties=plain))
    after = table.scan(["id"], row_ids=True).read_all().to_pydict()
    assert after == {name: values[100:] for name, values in before.items()}


def test_the_example_of_the_docs_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    section = (ROOT / "docs/file-layout.md").read_text().partition('<a id="writer-properties"></a>')[2]
    block = section.partition("```python\n")[2].partition("```")[0]
    exec(compile(block, "docs/file-layout.md", "exec"), {})
    (group,) = settings(tmp_path / "events")
    assert {group[name]["codec"] for name in ("id", "kind", "seconds")} == {"ZSTD"}
    assert group["id"]["bloom filter"]
