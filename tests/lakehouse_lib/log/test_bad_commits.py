"""Commit files that are not valid or contradict themselves: the error has the file, line, field and value."""

import json
import tracemalloc

import pytest

from lakehouse_lib.errors import DeltaError, LogCorruptedError, UnsupportedFeatureError, VersionNotFoundError
from lakehouse_lib.log import file_names
from lakehouse_lib.log.commits import action_lines
from lakehouse_lib.log.commits.commit_file import parse_commit, read_commit, read_removes
from lakehouse_lib.log.commits.file_actions import ACTION_TEXTS, SCHEMAS
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from tests.checkpoint_files import put_classic
from tests.log_builder import METADATA, PROTOCOL, add, lines, put, remove
from tests.table_builder import paths_of

VECTOR = {"storageType": "u", "pathOrInlineDv": "x" * 20, "offset": 1, "sizeInBytes": 36, "cardinality": 2}


def refused(data: bytes) -> str:
    with pytest.raises(LogCorruptedError) as caught:
        parse_commit(data, 7, "t")
    error = caught.value
    assert (error.table, error.version) == ("t", 7)
    assert error.hint
    assert file_names.commit(7) in error.message
    return error.message


def without(body, key):
    return {name: value for name, value in body.items() if name != key}


NUMBERS = [-(2**63) - 1, 2**63, 10**30, 1.5, "1", True, [], {}]
STRINGS = [5, 1.5, True, [], {}]
BOOLEANS = ["true", 1, 0, [], {}]
MAPS = [[], "x", 5, True, {"p": 1}, {"p": True}, {"p": {}}, {"p": ["a"]}]
FIELDS = {
    "path": [*STRINGS, ""],
    "partitionValues": MAPS,
    "size": [*NUMBERS, -1],
    "modificationTime": NUMBERS,
    "dataChange": BOOLEANS,
    "stats": STRINGS,
    "tags": MAPS,
    "deletionVector": [
        5,
        "x",
        [],
        {},
        *[
            VECTOR | wrong
            for wrong in (
                {"storageType": 5},
                {"storageType": "z"},
                {"storageType": None},
                {"pathOrInlineDv": None},
                {"offset": "1"},
                {"offset": -1},
                {"offset": 2**31},
                {"sizeInBytes": None},
                {"sizeInBytes": -1},
                {"cardinality": None},
                {"cardinality": -1},
                {"cardinality": 2.5},
            )
        ],
    ],
    "baseRowId": NUMBERS,
    "defaultRowCommitVersion": NUMBERS,
    "clusteringProvider": STRINGS,
}
METADATA_FIELDS = {
    "id": STRINGS,
    "name": STRINGS,
    "description": STRINGS,
    "format": [5, [], {"provider": 5}, {"options": []}, {"options": {"a": 1}}],
    "schemaString": [*STRINGS],
    "partitionColumns": ["p", 5, {}, [1], [None], [["p"]], ["p", "p"]],
    "configuration": MAPS,
    "createdTime": NUMBERS,
}
PROTOCOL_FIELDS = {
    "minReaderVersion": [*NUMBERS, 0, -1, 3],
    "minWriterVersion": [*NUMBERS, 0, -1, 7],
    "readerFeatures": ["x", 5, {}, [5], [None], ["deletionVectors"]],
    "writerFeatures": ["x", 5, {}, [5], [None], ["appendOnly"]],
}


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, values in FIELDS.items() for v in values])
@pytest.mark.parametrize("kind", ["add", "remove", "cdc"])
def test_a_field_of_a_file_that_is_of_another_type(kind, field, value):
    good = add("a.parquet")["add"]
    fields = set(SCHEMAS[kind].names)
    data = lines({"commitInfo": {}}, {kind: good}, {kind: good | {"path": "b.parquet", field: value}})
    if field not in fields:  # this action does not define the field, so its value may be anything
        parse_commit(data, 7, "t")
        return
    message = refused(data)
    assert f"line 3 of {file_names.commit(7)} is {ACTION_TEXTS[kind]} whose {field} is " in message


@pytest.mark.parametrize("field", ["path", "partitionValues", "size", "modificationTime", "dataChange"])
@pytest.mark.parametrize("null", [True, False])
def test_an_add_without_a_required_field(field, null):
    body = add("b.parquet")["add"]
    body = body | {field: None} if null else without(body, field)
    assert f"line 2 of {file_names.commit(7)} is an add action without {field}" in refused(
        lines(add("a"), {"add": body})
    )


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, values in METADATA_FIELDS.items() for v in values])
def test_a_field_of_metadata_that_is_of_another_type(field, value):
    message = refused(lines({"protocol": PROTOCOL}, {"metaData": METADATA | {field: value}}))
    assert f"line 2 of {file_names.commit(7)} is a metaData" in message
    assert field in message or field == "format"


def test_a_property_that_is_null_is_left_out(tmp_path):
    """Older versions of delta-rs wrote such properties."""
    form = {"provider": "parquet", "options": {"o": None}}
    body = METADATA | {"configuration": {"x": None, "y": "1"}, "format": form}
    store = put(tmp_path, 0, {"protocol": PROTOCOL}, {"metaData": body})
    for _ in range(2):
        metadata = load_snapshot(store).metadata
        assert (metadata.configuration, metadata.format_options) == ({"y": "1"}, {})
        put_classic(store, 0, [{"protocol": PROTOCOL}, {"metaData": body}])


@pytest.mark.parametrize(("field", "value"), [(f, v) for f, values in PROTOCOL_FIELDS.items() for v in values])
def test_a_field_of_the_protocol_that_is_of_another_type_or_against_the_versions(field, value):
    message = refused(lines({"protocol": PROTOCOL | {field: value}}))
    assert f"line 1 of {file_names.commit(7)} is a protocol action" in message
    assert field in message or value in (3, 7)


@pytest.mark.parametrize(
    ("action", "what"),
    [
        ({"metaData": without(METADATA, "id")}, "metaData action without id"),
        ({"metaData": without(METADATA, "schemaString")}, "metaData action without schemaString"),
        ({"metaData": without(METADATA, "partitionColumns")}, "metaData action without partitionColumns"),
        ({"protocol": {"minReaderVersion": 1}}, "protocol action without minWriterVersion"),
        ({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}}, "without readerFeatures"),
        ({"txn": {"appId": "a"}}, "txn action without version"),
        ({"txn": {"appId": 5, "version": 1}}, "txn action whose appId is 5"),
        ({"txn": {"appId": "a", "version": "1"}}, "txn action whose version is '1'"),
        ({"txn": {"appId": "a", "version": 1, "lastUpdated": "x"}}, "txn action whose lastUpdated is 'x'"),
        ({"domainMetadata": {"configuration": ""}}, "domainMetadata action without domain"),
        ({"domainMetadata": {"domain": "d", "configuration": {}}}, "whose configuration is {}"),
        ({"domainMetadata": {"domain": "d", "removed": "no"}}, "whose removed is 'no'"),
        ({"commitInfo": {"inCommitTimestamp": "now"}}, "whose inCommitTimestamp is 'now'"),
        ({"commitInfo": {"inCommitTimestamp": 10**17}}, "whose inCommitTimestamp is 1000"),
        ({"add": 5}, "the add is 5; expected an object"),
        ({"commitInfo": []}, r"the commitInfo is []; expected an object"),
        ({**add("a"), **remove("b")}, "2 actions: add, remove"),
        ([add("a")], "not a JSON object"),
        (json.dumps(add("a"))[:-9], "incomplete"),
        (json.dumps(add("a")) + json.dumps(add("b")), "Extra data"),
        ('{"add": NaN}', "NaN is not JSON"),
        ('{"commitInfo": {"x": -Infinity}}', "-Infinity is not JSON"),
        ('{"add": ' + "[" * 100_000, "nested too deeply"),
        ('{"commitInfo": {"x": ' + "9" * 5000 + "}}", "incomplete"),
    ],
)
def test_an_invalid_action_is_refused(action, what):
    assert f"line 2 of {file_names.commit(7)} is " in (message := refused(lines(add("a"), action)))
    assert what in message


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"a"', b'"\xff"'),
        (b'"a"', b'"\\ud800"'),
        (b'"a"', b'"a\x00"'),
        (b"{", b"\xef\xbb\xbf{"),
        (b"}}", b"}}\x00"),
    ],
    ids=["no UTF-8", "half a surrogate pair", "a NUL in a string", "a byte order mark", "a NUL after the line"],
)
def test_bytes_that_are_not_json_are_refused(old, new):
    assert "line 1" in refused(lines(add("a")).replace(old, new, 1))


@pytest.mark.parametrize("field", ["path", "stats", "clusteringProvider"])
def test_half_a_surrogate_pair_is_refused_wherever_it_is(field):
    refused(lines(add("a")).replace(b'"dataChange"', f'"{field}": "\\uDC00", "dataChange"'.encode()))


def test_a_whole_surrogate_pair_is_text():
    actions = parse_commit(lines(add("a", stats="\U0001f600")), 7, "t")
    assert b"\\ud83d\\ude00" in lines(add("a", stats="\U0001f600"))
    assert actions.adds["stats"].to_pylist() == ["\U0001f600"]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n \t\n", b""])
def test_line_ends_and_empty_lines_are_ignored(end):
    data = lines(add("a"), add("b")).replace(b"\n", end or b"\n") + end
    assert parse_commit(data, 7, "t").adds["path"].to_pylist() == ["a", "b"]


def test_unknown_fields_and_actions_are_ignored():
    data = lines(
        {"inventedAction": {"y": 2}},
        {"inventedAction": 5},
        {},
        {"add": None, "inventedAction": {}},
        {"inventedBeside": {}, **add("a", inventedField={"x": [1]}, deletionVector=VECTOR | {"invented": 5})},
    )
    actions = parse_commit(data, 7, "t")
    assert actions.adds["path"].to_pylist() == ["a"]


@pytest.mark.parametrize("data", [b"", b"\n", b" \r\n\t"])
def test_an_empty_commit_file(data):
    assert "is empty" in refused(data)


def test_a_large_commit_file_of_spaces_is_empty(tmp_path, monkeypatch):
    monkeypatch.setattr("lakehouse_lib.log.commits.commit_file._BLOCK_BYTES", 16)
    store = put(tmp_path, 0, add("a"))
    store.put(file_names.commit(1), b" \n" * 100)
    with pytest.raises(LogCorruptedError, match="is empty"):
        read_commit(store, 1)


@pytest.mark.parametrize("action", [{"metaData": METADATA}, {"protocol": PROTOCOL}], ids=["metaData", "protocol"])
def test_a_second_protocol_or_metadata_in_a_commit_is_refused(action):
    assert "has 2 " in refused(lines(action, add("a"), action))


@pytest.mark.parametrize("kind", [add, remove])
def test_a_file_that_a_commit_names_twice(kind):
    same = parse_commit(lines(kind("a"), kind("b"), kind("a"), kind("a")), 7, "t")
    both = {"add": same.adds, "remove": same.removes}
    assert both[kind.__name__]["path"].to_pylist() == ["a", "b"]
    message = refused(lines(kind("b"), kind("a", size=1), kind("a", size=2)))
    assert f"two different {kind.__name__} actions of 'a'" in message
    other = VECTOR | {"pathOrInlineDv": "y" * 20}
    refused(lines(kind("a", deletionVector=VECTOR), kind("a", deletionVector=other)))
    refused(lines(kind("a", deletionVector=VECTOR), kind("a")))


def test_a_file_is_not_added_and_removed_at_once_but_its_deletion_vector_may_change():
    for pair in ((add("a"), remove("a")), (remove("a"), add("a"))):
        assert "adds and removes 'a' at once" in refused(lines(*pair))
    refused(lines(remove("a", deletionVector=VECTOR), add("a", deletionVector=VECTOR)))
    swapped = parse_commit(lines(remove("a"), add("a", deletionVector=VECTOR)), 7, "t")
    assert (len(swapped.adds), len(swapped.removes)) == (1, 1)


def test_a_line_beyond_the_bound_is_refused_before_the_rest_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(action_lines, "MAX_LINE_BYTES", 2**20)
    monkeypatch.setattr("lakehouse_lib.log.commits.commit_file.MAX_LINE_BYTES", 2**20)
    monkeypatch.setattr("lakehouse_lib.log.commits.commit_file._BLOCK_BYTES", 2**16)
    store = put(tmp_path, 0, add("a"))
    file = tmp_path / file_names.commit(1)
    with file.open("wb") as out:
        out.write(b'{"add": {"stats": "')
        out.truncate(2 * 2**30)  # two gigabytes that take no space on the disk
    tracemalloc.start()
    try:
        with pytest.raises(LogCorruptedError, match=f"line 1 .*longer than {2**20} bytes.*version 1"):
            load_snapshot(store)
        assert tracemalloc.get_traced_memory()[1] < 8 * 2**20
    finally:
        tracemalloc.stop()


def test_a_commit_larger_than_a_line_may_be_is_read_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("lakehouse_lib.log.commits.commit_file.MAX_LINE_BYTES", 100)
    for block in (1, 7, 64, 4096):
        monkeypatch.setattr("lakehouse_lib.log.commits.commit_file._BLOCK_BYTES", block)
        store = put(tmp_path / str(block), 0, *(add(f"f{n}", stats="é" * n) for n in range(30)))
        commit = read_commit(store, 0)
        whole = parse_commit(store.read(file_names.commit(0)), 0, "t")
        assert (commit.adds, commit.metadata, commit.protocol) == (whole.adds, whole.metadata, whole.protocol)
    store.put(file_names.commit(1), b"\n".join([*(lines(add(f"f{n}")) for n in range(30)), b"{"]))
    with pytest.raises(LogCorruptedError, match="line 31 "):
        read_commit(store, 1)


def test_long_values_are_shortened_in_errors(tmp_path):
    assert len(refused(lines(add("a", size="9" * 10**6)))) < 400
    assert len(refused(lines(add("a", stats={"x": ["y" * 100] * 1000})))) < 400


def test_a_folder_with_the_name_of_a_commit_is_ignored(tmp_path):
    store = put(tmp_path, 0, add("a"))
    (tmp_path / file_names.commit(1)).mkdir()
    assert load_snapshot(store).version == 0
    with pytest.raises(DeltaError):
        read_commit(store, 1)


@pytest.mark.parametrize(
    "name",
    [
        "0000000000000000001.json",
        "000000000000000000001.json",
        "-0000000000000000001.json",
        "0000000000000000000x.json",
        "00000000000000000001.json.tmp",
        "1.json",
        ".json",
        "\u0661" * 20 + ".json",
    ],
)
def test_names_that_are_not_commits_are_ignored(tmp_path, name):
    store = put(tmp_path, 0, add("a"))
    (tmp_path / "_delta_log" / name).write_bytes(b"no action")
    assert paths_of(load_snapshot(store)) == ["a"]
    assert load_snapshot(store).version == 0


@pytest.mark.parametrize("version", [-1, -(10**30), 10**30, 1])
def test_versions_that_do_not_exist_are_refused(tmp_path, version):
    store = put(tmp_path, 0, add("a"))
    with pytest.raises(VersionNotFoundError, match=str(version)):
        load_snapshot(store, version)


def test_a_log_that_begins_without_protocol_or_metadata(tmp_path):
    for number, action in enumerate(({"protocol": PROTOCOL}, {"metaData": METADATA})):
        store = LocalStore(str(tmp_path / str(number)), fsync=False)
        store.put(file_names.commit(0), lines(action, add("a")))
        with pytest.raises(LogCorruptedError, match=r"no (protocol|metaData) action.*version 0"):
            load_snapshot(store)


def test_files_of_another_format_are_refused(tmp_path):
    store = put(tmp_path, 0, {"metaData": METADATA | {"format": {"provider": "orc", "options": {}}}})
    with pytest.raises(UnsupportedFeatureError, match=rf"'orc'.*{tmp_path}"):
        load_snapshot(store)


@pytest.mark.parametrize("end", [b"\n", b"", b"\r\n", b"\n\n"])
@pytest.mark.parametrize(
    "line", [add("b"), remove("b"), add("b-\u00e9"), {"commitInfo": {"operation": "remove"}}, {"txn": {"appId": "\\u"}}]
)
def test_removes_are_those_of_the_whole_commit(tmp_path, line, end):
    store = LocalStore(str(tmp_path), fsync=False)
    lined = {**line, "txn": line["txn"] | {"version": 1}} if "txn" in line else line
    data = lines(add("a"), lined).rstrip() + end
    for version, text in enumerate((data, data.replace(b"remove", rb"rem\u006fve"))):
        store.put(file_names.commit(version), text)
        removes = read_commit(store, version).removes
        assert len(removes) == ("remove" in line)
        assert read_removes(store, version, len(text)).equals(removes)


@pytest.mark.parametrize("cut", [0, 1, 3, 60])
def test_removes_of_a_commit_without_its_end_are_unknown(tmp_path, cut):
    store = LocalStore(str(tmp_path), fsync=False)
    data = lines(add("a"), add("b"))[: -1 - cut] if cut else b""
    store.put(file_names.commit(7), data)
    with pytest.raises(LogCorruptedError) as caught:
        read_removes(store, 7, len(data))
    assert (caught.value.table, caught.value.version) == (store.root, 7)


def test_removes_of_a_commit_that_does_not_exist(tmp_path):
    with pytest.raises(VersionNotFoundError, match="version 7"):
        read_removes(LocalStore(str(tmp_path)), 7, 5)
