"""The columnar parser of commits gives the same files, or the same error, as the line parser."""

import json
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.log.commits import action_lines
from lakehouse_lib.log.commits.action_columns import FileParser
from lakehouse_lib.log.commits.commit_file import CommitActions, parse_commit
from tests.log_builder import METADATA, PROTOCOL, add, remove
from tests.slow_cases import some_slow

COLUMNS, LINES = 0, 2**60  # the size in bytes from which pieces are parsed by the columnar parser
VECTOR = {"storageType": "u", "pathOrInlineDv": "x" * 20, "offset": 1, "sizeInBytes": 36, "cardinality": 2}
CDC = {"cdc": {"path": "_change_data/c", "partitionValues": {}, "size": 3, "dataChange": False}}


def compact(action) -> bytes:
    return json.dumps(action, separators=(",", ":"), ensure_ascii=False).encode()


def lines_of(*actions) -> bytes:
    return b"\n".join(action if isinstance(action, bytes) else compact(action) for action in actions)


def read(data: bytes, columnar_bytes: int, piece_bytes: int = 2**22) -> dict[str, object] | str:
    """The actions of a commit in a fixed order, or its error."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(action_lines, "_COLUMNAR_BYTES", columnar_bytes)
        patch.setattr(action_lines, "_PIECE_BYTES", piece_bytes)
        try:
            return contents(parse_commit(data, 7, "t"))
        except LogCorruptedError as error:
            return str(error)


def contents(commit: CommitActions) -> dict[str, object]:
    tables = {"adds": commit.adds, "removes": commit.removes, "changes": commit.changes}
    for table in tables.values():
        table.validate(full=True)
    rest = (commit.metadata, commit.protocol, commit.transactions, commit.domains, commit.info)
    return {name: (table.schema, table.to_pylist(maps_as_pydicts="strict")) for name, table in tables.items()} | {
        "rest": rest
    }


def agree(data: bytes) -> None:
    for piece_bytes in (1, 300, 2**22):
        assert read(data, COLUMNS, piece_bytes) == read(data, LINES, piece_bytes)


def is_columnar(*actions) -> bool:
    """Whether the columnar parser accepts these lines, and does not leave them to the line parser."""
    return FileParser().parse(lines_of(*actions)) is not None


TAKEN = {
    "adds alone": [add("a"), add("b")],
    "every field": [add("a", stats="{}", tags={"k": "v"}, deletionVector=VECTOR, baseRowId=0, clusteringProvider="c")],
    "fields that are null": [add("a", stats=None, tags=None, deletionVector=None), add("b")],
    "all kinds": [add("a"), remove("b", tags={"x": "1"}), CDC | {}, add("c", deletionVector=VECTOR)],
    "another kind beside it is null": [add("a") | {"remove": None}, {"add": None} | remove("b")],
    "partition values": [add("a", partitionValues={"p": "1", "q": "x"}), add("b", partitionValues={"p": "2", "q": ""})],
    "null partition values": [add("a", partitionValues={"p": None}), add("b", partitionValues={"p": "null"})],
    "partition values of one only": [add("a", partitionValues={"p": "1"}), add("b", partitionValues={"q": None})],
    "tags of one only": [add("a", tags={"k": "v"}), add("b", tags={}), add("c"), add("d", tags={"j": "w"})],
    "keys beyond ASCII": [add("a", partitionValues={"größe 1-x": None}), add("b", partitionValues={})],
    "keys with a dot before them": [add("a", partitionValues={".p": "1", "p": None}), add("b", tags={".": "2"})],
    "text beyond ASCII": [add("é\U0001f600", stats='{"a":"\\u0000\x7f"}'), add("b")],
    "escapes": [add("a"), compact(add("b")).replace(b'"b"', b'"\\u0000\\ud83d\\ude00\\/\\b\\u00E9"')],
    "spaces": [json.dumps(add("a", partitionValues={"p": "1"})).encode(), add("b", partitionValues={"p": ""})],
    "a blank end": [add("a"), add("b"), b"", b" \t\r"],
    "brackets in text": [add("a", stats="]"), add("b", stats='["x]"]')],
    "the largest numbers": [add("a", size=2**63 - 1, modificationTime=-(2**63), baseRowId=-1)],
}


@pytest.mark.parametrize("actions", TAKEN.values(), ids=TAKEN)
def test_actions_of_known_writers_are_parsed_as_columns(actions):
    assert is_columnar(*actions)
    agree(lines_of(*actions))
    agree(lines_of({"commitInfo": {"a": [1]}}, {"protocol": PROTOCOL}, *actions, {"metaData": METADATA}, b""))


LEFT = {
    "a null under a name that fields have": [add("a", partitionValues={"size": None})],
    "a null behind a space": [json.dumps(add("a", partitionValues={"p": None})).encode()],
    "a null and a key with escapes": [
        compact(add("a", partitionValues={"p": None})).replace(b'"p"', b'"\\u0070"'),
        add("b", partitionValues={"p": "1"}),
    ],
    "the text that stands for null": [add("a", partitionValues={"p": None}), add("b", partitionValues={"p": "\0null"})],
    "keys that look like JSON": [add("a", partitionValues={":null,": None, ",": "x", "}": "y", 'q"': "z"})],
    "a key twice": [add("b"), compact(add("a")).replace(b"{", b'{"add":null,', 1)],
    "a field twice": [compact(add("a")).replace(b'"size"', b'"size":null,"size"')],
    "a map's key twice": [compact(add("a", partitionValues={"p": "1"})).replace(b'"p"', b'"p":null,"p"')],
    "unknown fields": [add("a", invented={"x": [1]})],
    "a field of later lines": [
        *(add(str(n)) for n in range(40)),
        add("x", baseRowId=5),
        *(add(f"y{n}") for n in range(40)),
    ],
    "two kinds in a line": [add("a") | remove("b")],
    "neither": [add("a"), {"add": None}],
    "other actions between": [add("a"), {"txn": {"appId": "x", "version": 1}}, add("b")],
    "no object": [add("a"), b"null", add("b")],
    "two objects in a line": [add("a"), compact(add("b")) + compact(add("c"))],
    "null between objects": [add("a"), compact(add("b")) + b"null" + compact(add("c"))],
    "a comma between objects": [add("a"), compact(add("b")) + b"," + compact(add("c"))],
    "an object over two lines": [add("a"), compact(add("b")).replace(b',"size"', b',\n"size"')],
    "a string over two lines": [b'{"add":{"path":"x}', b'{","size":1}}', compact(add("b")) + b"," + compact(add("c"))],
    "the end of Arrow's list": [add("a"), compact(add("b")) + b']}null{"lines":[' + compact(add("c"))],
    "the end of it with spaces": [add("a"), compact(add("b")) + b'] \t} {"lines":[' + compact(add("c"))],
    "a torn last line": [add("a"), compact(add("b"))[:-3]],
    "a line in the middle that is torn": [add("a"), compact(add("b"))[:-3], add("c")],
    "a byte order mark": [b"\xef\xbb\xbf" + compact(add("a"))],
    "a NUL": [add("a"), compact(add("b")) + b"\0"],
    "half a surrogate pair": [add("a"), compact(add("b")).replace(b'"b"', b'"\\ud83d"')],
    "its other half": [add("a"), compact(add("b")).replace(b'"b"', b'"\\ude00"')],
    "no UTF-8": [add("a"), compact(add("b")).replace(b'"b"', b'"\xff"')],
    "carriage returns": [compact(add("a")) + b"\r", compact(add("b")) + b"\r"],
    "a blank line between": [add("a"), b"", add("b")],
    "a number beyond 64 bits": [add("a"), add("b", size=2**63)],
    "a number with a fraction": [add("a"), add("b", size=1.0)],
    "a number with an exponent": [add("a"), compact(add("b")).replace(b"10", b"1e1")],
    "NaN": [add("a"), compact(add("b")).replace(b"10", b"NaN")],
    "a number as text": [add("a"), add("b", size="10")],
    "a map that is none": [add("a"), add("b", partitionValues=[])],
    "a value of a map that is none": [add("a", tags={"k": "v"}), add("b", tags={"k": 1})],
    "no path": [add("a"), add("")],
    "a negative size": [add("a"), remove("b", size=-1)],
    "nothing that is required": [add("a"), {"add": {"path": "b"}}],
    "half a deletion vector": [add("a"), add("b", deletionVector={"storageType": "u"})],
    "too many keys": [add("a", tags={str(n): "" for n in range(100)})],
    "depth": [add("a"), b'{"add":' + b"[" * 5000 + b"]" * 5000 + b"}"],
}


@pytest.mark.parametrize("actions", some_slow([*LEFT.values()], 15), ids=LEFT)
def test_doubtful_lines_are_left_to_the_line_parser(actions):
    assert not is_columnar(*actions)
    agree(lines_of(*actions))
    agree(lines_of({"commitInfo": {}}, *actions, add("z"), {"protocol": PROTOCOL}))


TEXTS = st.one_of(
    st.text('ap019-"\\\n\t }{][,:\0\x7fé\U0001f600\ud83d', max_size=5),
    st.sampled_from(["", "a", "p", "null", "\0null", '"p":null', "]}", "}\n{", "\\u0070", '{"add":null}', "size"]),
)
KEYS = st.sampled_from(["p", "q", "size", "path", "add", "é", "a b", "", ":", ",", 'x"', "\\", "p\n"]) | TEXTS
JSON = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=True), TEXTS, st.lists(TEXTS, max_size=2))
MAPS = st.dictionaries(KEYS, st.one_of(st.none(), TEXTS), max_size=3) | st.none()
VECTORS = st.none() | st.just(VECTOR) | st.dictionaries(st.sampled_from([*VECTOR, "maxRowIndex"]), JSON, max_size=5)
USUAL = {
    "partitionValues": MAPS,
    "tags": MAPS,
    "stats": st.none() | TEXTS,
    "deletionVector": VECTORS,
    "baseRowId": st.none() | st.integers(-(2**63), 2**63),
}


@st.composite
def actions(draw):
    body = draw(st.sampled_from([add, remove]))(draw(TEXTS))
    kind, fields = next(iter(body.items()))
    assert isinstance(fields, dict)
    fields |= {name: draw(USUAL[name]) for name in draw(st.lists(st.sampled_from(sorted(USUAL)), max_size=3))}
    for name in draw(st.lists(st.sampled_from([*fields, "invented", "extendedFileMetadata"]), max_size=1)):
        fields[name] = draw(JSON)  # mostly of a wrong type
    line = json.dumps(
        {draw(st.sampled_from([kind, kind, kind, "cdc"])): fields},
        separators=draw(st.sampled_from([(",", ":"), (",", ":"), (", ", ": ")])),
        ensure_ascii=draw(st.booleans()),
    )
    return line.encode("utf-8", "surrogatepass")


OTHERS = st.sampled_from(
    [
        compact(action)
        for action in ({"txn": {"appId": "a", "version": 1}}, {"commitInfo": {"x": 1}}, {"invented": 1}, {})
    ]
    + [b"", b" \r", b"null", b"[]", b"1", b"{", b"}", b"]}", b'{"add":null}', b"{}{}", b"\xff"]
)
PIECES = st.sampled_from([b"", b"null", b",", b"}", b"]}", b'"', b"\n", b"\0", b"\xff", b"\\u", b"\\ud800", b" ", b"{"])


@given(st.lists(st.one_of(actions(), actions(), actions(), OTHERS), max_size=8))
def test_both_parsers_agree_on_generated_commits(lines):
    agree(b"\n".join(lines))


@given(st.lists(actions(), min_size=1, max_size=4), st.data())
def test_both_parsers_agree_on_corrupted_commits(lines, data):
    text = b"\n".join(lines)
    for _ in range(data.draw(st.integers(1, 2))):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(PIECES) + text[at + data.draw(st.integers(0, 3)) :]
    agree(text)


def test_a_wrong_line_is_named_by_its_number_in_the_file():
    many = [add(f"f{n}", stats="x" * 50) for n in range(500)]
    for wrong in (0, 250, 499):
        broken = [*many[:wrong], add("bad", size=-1), *many[wrong + 1 :]]
        for columnar in (COLUMNS, LINES):
            message = read(lines_of({"commitInfo": {}}, *broken), columnar, piece_bytes=2**12)
            assert f"line {wrong + 2} of " in message
            assert "size is -1" in message


@pytest.mark.slow
def test_a_large_commit_makes_no_python_object_a_line():
    data = lines_of(*(add(f"part-{n:05}.parquet", stats='{"numRecords":1}') for n in range(20_000)))
    read(lines_of(add("a")), COLUMNS)
    tracemalloc.start()
    try:
        commit = parse_commit(data, 7, "t")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(commit.adds) == 20_000
    assert peak < 4 * len(data)
