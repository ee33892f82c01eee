"""The protocol that a table's metadata requires: the lowest protocol with which other engines open the table."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.features import FEATURES, protocol_for, reader_features, with_features, writer_features
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.schema import Field, Schema
from tests.log_builder import edit
from tests.peers import read_duckdb

ROWS = pa.table({"a": [1, 2]})
#: A property for each feature that a property enables, and the lowest protocol of a table with it.
ENABLED = {
    "appendOnly": ({"delta.appendOnly": "true"}, (1, 2)),
    "changeDataFeed": ({"delta.enableChangeDataFeed": "true"}, (1, 4)),
    "deletionVectors": ({"delta.enableDeletionVectors": "true"}, (3, 7)),
    "inCommitTimestamp": ({"delta.enableInCommitTimestamps": "true"}, (1, 7)),
    "rowTracking": ({"delta.enableRowTracking": "true"}, (1, 7)),
    "v2Checkpoint": ({"delta.checkpointPolicy": "v2"}, (3, 7)),
}
#: Versions of the protocol without lists, and the features that they imply in delta-spark (TableFeature.scala).
LEGACY = {
    "appendOnly": (1, 2),
    "invariants": (1, 2),
    "checkConstraints": (1, 3),
    "changeDataFeed": (1, 4),
    "generatedColumns": (1, 4),
    "columnMapping": (2, 5),
    "identityColumns": (1, 6),
}


def metadata(configuration: dict[str, str], *types: str) -> Metadata:
    schema = Schema([Field(f"c{number}", kind) for number, kind in enumerate(("long", *types))])
    return Metadata("id", schema.to_json(), configuration=configuration)


@pytest.mark.parametrize("reader", [1, 2])
@pytest.mark.parametrize("writer", range(1, 7))
def test_versions_imply_the_features_of_delta_spark(reader: int, writer: int) -> None:
    implied = {name for name, (readers, writers) in LEGACY.items() if reader >= readers and writer >= writers}
    assert writer_features(Protocol(reader, writer)) == implied
    assert reader_features(Protocol(reader, writer)) == implied & {"columnMapping"}


@pytest.mark.parametrize("names", [names for count in (1, 2, 6) for names in combinations(ENABLED, count)])
def test_a_new_table_has_the_lowest_protocol(names: tuple[str, ...]) -> None:
    described = metadata({key: value for name in names for key, value in ENABLED[name][0].items()})
    protocol = protocol_for(described)
    versions = tuple(max(numbers) for numbers in zip(*(ENABLED[name][1] for name in names), strict=True))
    assert (protocol.min_reader_version, protocol.min_writer_version) == versions
    features = {*names, *(("domainMetadata",) if "rowTracking" in names else ())}
    assert features <= writer_features(protocol)
    if versions[1] == 7:
        assert writer_features(protocol) == features | {"appendOnly", "invariants"}
    assert reader_features(protocol) == features & {"deletionVectors", "v2Checkpoint"}
    assert protocol_for(described, protocol) == protocol


@pytest.mark.parametrize("versions", [(1, 1), (1, 2), (1, 6), (2, 5), (2, 6)])
@pytest.mark.parametrize("name", FEATURES)
def test_a_feature_is_added_with_its_required_features(versions: tuple[int, int], name: str) -> None:
    before = Protocol(*versions)
    after = with_features(before, [name])
    assert writer_features(before) | {name, *FEATURES[name].requires} <= writer_features(after)
    assert (name in reader_features(after)) == FEATURES[name].reader
    assert reader_features(before) <= reader_features(after)
    assert with_features(after, [name]) == after
    assert Protocol.from_json(json.loads(json.dumps(after.to_json()))) == after


@pytest.mark.parametrize("name", ["appendOnly", "changeDataFeed", "deletionVectors"])
def test_delta_rs_gives_a_new_table_the_same_protocol(tmp_path: Path, name: str) -> None:
    configuration = ENABLED[name][0]
    our_protocol = DeltaTable.create(tmp_path / "ours", ROWS.schema, configuration=configuration).protocol()
    delta_rs_protocol = deltalake.DeltaTable.create(
        tmp_path / "theirs", ROWS.schema, configuration=configuration
    ).protocol()
    assert (our_protocol.min_reader_version, our_protocol.min_writer_version) == (
        delta_rs_protocol.min_reader_version,
        delta_rs_protocol.min_writer_version,
    )
    for side in ("reader_features", "writer_features"):
        listed = getattr(delta_rs_protocol, side)  # delta-rs lists variantType for every schema
        assert set(getattr(our_protocol, side) or ()) == set(listed or ()) - {"variantType"}


def test_a_type_adds_its_feature() -> None:
    writers = frozenset({"appendOnly", "invariants", "timestampNtz"})
    assert protocol_for(metadata({}, "timestamp_ntz")) == Protocol(3, 7, frozenset({"timestampNtz"}), writers)


def test_a_property_that_needs_a_backfill_adds_nothing_to_a_table_with_files() -> None:
    tracked = metadata(ENABLED["rowTracking"][0])
    assert protocol_for(tracked, Protocol(1, 2)) == Protocol(1, 2)
    assert "rowTracking" in writer_features(protocol_for(tracked, Protocol(1, 2), has_files=False))


def test_a_property_of_an_unsupported_feature_has_no_effect() -> None:
    compatible = metadata({"delta.enableIcebergCompatV2": "true"})
    assert protocol_for(compatible, Protocol(1, 2)) == Protocol(1, 2)


@pytest.mark.parametrize("versions", [(1, 4), (1, 6), (2, 4)])
@pytest.mark.parametrize(
    "configuration", [{"delta.enableInCommitTimestamps": "true"}, {"delta.checkpointPolicy": "v2"}]
)
def test_old_versions_become_feature_lists_that_others_read(
    tmp_path: Path, versions: tuple[int, int], configuration: dict[str, str]
) -> None:
    """A feature of readers and writers is not listed if the old versions reach it on one side only."""
    write_deltalake(tmp_path, ROWS)
    with_versions(tmp_path, *versions)
    write_deltalake(tmp_path, ROWS, mode="append")
    DeltaTable.create(tmp_path, ROWS.schema, mode="overwrite", configuration=configuration)
    protocol = DeltaTable(tmp_path).protocol()
    assert protocol.min_writer_version == 7
    assert "columnMapping" not in {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
    assert deltalake.DeltaTable(tmp_path).version() == 2
    assert read_duckdb(tmp_path).num_rows == 0


@pytest.mark.parametrize(
    ("configuration", "feature", "version"),
    [({"delta.enableChangeDataFeed": "true"}, "changeDataFeed", 4), ({"delta.appendOnly": "true"}, "appendOnly", 2)],
)
def test_a_property_adds_its_feature(tmp_path: Path, configuration: dict[str, str], feature: str, version: int) -> None:
    schema = pa.schema([("at", pa.timestamp("us"))])
    deltalake.DeltaTable.create(tmp_path / "listed", schema)
    assert feature not in deltalake.DeltaTable(tmp_path / "listed").protocol().writer_features
    listed = DeltaTable.create(tmp_path / "listed", schema, mode="overwrite", configuration=configuration)
    assert feature in (listed.protocol().writer_features or ())
    DeltaTable.create(tmp_path / "old", ROWS.schema)
    with_versions(tmp_path / "old", 1, 1)
    old = DeltaTable.create(tmp_path / "old", ROWS.schema, mode="overwrite", configuration=configuration)
    assert (old.protocol().min_writer_version, old.protocol().writer_features) == (version, None)


def with_versions(uri: Path, reader: int, writer: int) -> None:
    """Replace version 0 with a protocol of these versions, without lists."""
    versions = {"minReaderVersion": reader, "minWriterVersion": writer}
    edit(uri, 0, lambda action: action.update(protocol=versions) if "protocol" in action else None)
