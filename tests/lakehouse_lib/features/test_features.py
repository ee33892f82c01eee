"""The table of features: every feature has a name, and an unsupported feature in use is refused with a reason."""

import json
from importlib import import_module
from pathlib import Path

import pytest

from lakehouse_lib.errors import UnsupportedFeatureError
from lakehouse_lib.features import FEATURES, check_read, check_write, reader_features, writer_features
from lakehouse_lib.features.feature import always
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.schema import Field, Schema, StructType
from lakehouse_lib.snapshot import load_snapshot
from tests import log_builder
from tests.log_builder import array, field, mapping, put, struct

# From TableFeature.scala of delta-spark 4.4.0, PROTOCOL.md and the proposals beside it.
NAMES = [
    "adaptiveMetadata-preview",
    "allowColumnDefaults",
    "appendOnly",
    "catalogManaged",
    "catalogOwned-preview",
    "changeDataFeed",
    "checkConstraints",
    "checkpointProtection",
    "clustering",
    "collations",
    "collations-preview",
    "columnMapping",
    "columnMappingUsageTracking",
    "coordinatedCommits-preview",
    "deletionVectors",
    "domainMetadata",
    "generatedColumns",
    "geospatial",
    "geospatial-dev",
    "icebergCompatV1",
    "icebergCompatV2",
    "icebergCompatV3",
    "icebergWriterCompatV1",
    "icebergWriterCompatV3",
    "identityColumns",
    "inCommitTimestamp",
    "invariants",
    "materializePartitionColumns",
    "redirectReaderWriter-preview",
    "redirectWriterOnly-preview",
    "rowTracking",
    "timestampNanos",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantShredding",
    "variantShredding-preview",
    "variantType",
    "variantType-preview",
]

SCHEMA = struct(field("x", "long"))
PLAIN = Schema.from_json(json.dumps(SCHEMA))


def protocol(*names: str) -> Protocol:
    readers = [name for name in names if name not in FEATURES or FEATURES[name].reader]
    return Protocol(3, 7, frozenset(readers), frozenset(names))


def metadata(**configuration: str) -> Metadata:
    return Metadata("id", json.dumps(SCHEMA), configuration=configuration)


def refusal(check, *listed: str, schema: Schema = PLAIN, **configuration: str) -> str:
    with pytest.raises(UnsupportedFeatureError) as caught:
        check(protocol(*listed), metadata(**configuration), schema, table="t", version=3)
    assert (caught.value.table, caught.value.version) == ("t", 3)
    assert caught.value.hint
    return str(caught.value)


def test_every_known_feature_is_in_the_table():
    assert sorted(FEATURES) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_unreadable_features_are_not_written_and_refusals_have_a_reason(name):
    feature = FEATURES[name]
    assert feature.name == name
    assert feature.reads or not feature.writes
    assert feature.support_note or (feature.reads and feature.writes)


@pytest.mark.parametrize("name", [name for name in NAMES if FEATURES[name].in_use is always])
def test_features_that_are_in_use_once_listed_are_refused_by_name(name):
    feature = FEATURES[name]
    for check, supported in ((check_read, feature.reads), (check_write, feature.writes)):
        if supported:
            check(protocol(name), metadata(), PLAIN, table="t", version=3)
        else:
            assert f"uses {name} ({name}: {feature.support_note})" in refusal(check, name)


def test_an_unknown_feature_is_refused():
    assert "secretFiles: unknown to this library" in refusal(check_read, "secretFiles")
    writers = Protocol(1, 7, None, frozenset(["secretRules"]))
    check_read(writers, metadata(), PLAIN, table="t", version=3)
    with pytest.raises(UnsupportedFeatureError, match="secretRules"):
        check_write(writers, metadata(), PLAIN, table="t", version=3)


@pytest.mark.parametrize("name", ["catalogManaged", "catalogOwned-preview"])
def test_a_catalog_table_is_refused_by_path_with_a_hint(tmp_path, name):
    store = put(tmp_path, 0, log_builder.protocol(name))
    with pytest.raises(UnsupportedFeatureError, match=rf"{name}.*{tmp_path}.*connected to the catalog"):
        load_snapshot(store)


def test_a_table_of_a_commit_coordinator_is_refused_for_reads():
    key = "delta.coordinatedCommits.commitCoordinator-preview"
    assert "coordinatedCommits-preview" in refusal(check_read, "coordinatedCommits-preview", **{key: "dynamodb"})
    check_read(protocol("coordinatedCommits-preview"), metadata(), PLAIN, table="t", version=3)


@pytest.mark.parametrize("name", ["geospatial", "geospatial-dev"])
@pytest.mark.parametrize("kind", ["geometry(4326)", "geography"])
def test_types_put_a_feature_to_use_at_any_depth(name, kind):
    inside = StructType([Field("g", StructType.from_json(json.dumps(_nested(kind))))])
    assert name in refusal(check_read, name, schema=Schema(inside.fields))
    check_read(protocol(name), metadata(), PLAIN, table="t", version=3)


def test_versions_without_lists_imply_their_features():
    mapped = metadata(**{"delta.columnMapping.mode": "name"})
    if not FEATURES["columnMapping"].reads:
        with pytest.raises(UnsupportedFeatureError, match="columnMapping"):
            check_read(Protocol(2, 5), mapped, PLAIN, table="t", version=3)
    check_read(Protocol(1, 4), mapped, PLAIN, table="t", version=3)  # no column mapping before reader version 2
    assert "columnMapping" in writer_features(Protocol(2, 5)) & reader_features(Protocol(2, 5))
    for one_sided in (Protocol(1, 6), Protocol(2, 4)):  # as in delta-spark, both versions must reach it
        assert "columnMapping" not in writer_features(one_sided) | reader_features(one_sided)
    assert reader_features(Protocol(2, 7, None, frozenset({"columnMapping"}))) == {"columnMapping"}
    with pytest.raises(UnsupportedFeatureError, match="reader version 4"):
        check_read(Protocol(4, 7, frozenset(), frozenset()), metadata(), PLAIN, table="t", version=3)


@pytest.mark.parametrize("versions", [(1, 2), (1, 6), (2, 4)])
def test_a_table_whose_property_maps_columns_is_not_written_unless_its_protocol_does(versions):
    """Some readers check only the property, so they would read files with logical names as nulls."""
    mapped = metadata(**{"delta.columnMapping.mode": "name"})
    with pytest.raises(UnsupportedFeatureError, match="columnMapping"):
        check_write(Protocol(*versions), mapped, PLAIN, table="t", version=3)
    check_write(Protocol(2, 5), mapped, PLAIN, table="t", version=3)


def test_the_page_is_generated_from_the_table():
    generator = import_module("docs.protocol_support")
    page = Path(generator.__file__).with_name("protocol-support.md").read_text(encoding="utf-8")
    assert page == generator.page(), "run `make docs`"
    for name in NAMES:
        assert f"| `{name}` |" in page


def _nested(kind):
    return struct(field("v", mapping("string", array(kind))))
