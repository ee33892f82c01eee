"""Conversion of paths between the log and the store."""

import posixpath
import re
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib.errors import PathOutsideTableError
from lakehouse_lib.protocol import file_paths
from lakehouse_lib.store import LocalStore, open_store

STORE = LocalStore("/data/table")

segments = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="/\x00"), min_size=1).filter(
    lambda s: s not in (".", "..")
)


@given(st.lists(segments, min_size=1, max_size=4))
def test_encode_then_decode_is_the_same_path(parts):
    path = "/".join(parts)
    assert file_paths.decode(file_paths.encode(path), STORE) == path
    assert file_paths.decode_all(pa.array([file_paths.encode(path)]), STORE).to_pylist() == [path]


def test_a_path_is_decoded_once():
    assert file_paths.decode("a%2520b", STORE) == "a%20b"


@pytest.mark.parametrize(
    "same", ["file:/data/table/x/y", "file:///data/table/x/y", "/data/table/x/y", "//data/table/x/./y", "x//y", "./x/y"]
)
def test_spellings_of_one_file_are_one(same):
    assert file_paths.decode(same, STORE) == "x/y"
    assert file_paths.canonical(pa.array([same, "plain"]), STORE).to_pylist() == ["x/y", "plain"]


@pytest.mark.parametrize(
    "outside",
    [
        "../x",
        "a/../../x",
        "%2e%2e/x",
        "/data/other/x",
        "/data/table/../x",
        "/data/tablet/x",
        "s3://bucket/x",
        ".",
        "",
        "a/",
        "a\0b",
    ],
)
def test_a_path_out_of_the_table_is_refused(outside):
    with pytest.raises(PathOutsideTableError, match=r"outside.*table /data/table"):
        file_paths.decode(outside, STORE)


spelled = st.lists(
    st.sampled_from(
        [
            "a",
            "b c",
            "%20",
            "%2541",
            "%C3%A9",
            "%c3%a9",
            "%zz",
            "%",
            "%3",
            "%32",
            "%35",
            "%25",
            "é",
            "x=%3A",
            "/",
            "//",
            "./",
            "/.",
        ]
    ),
    min_size=1,
    max_size=6,
).map("".join)


@given(
    st.lists(st.tuples(st.sampled_from(["", "/data/table/", "file:/data/table/", "file:///data/table/"]), spelled)),
)
def test_columns_of_paths_are_decoded_as_each_would_be(parts):
    def relative_path(start: str, rest: str) -> str | None:
        text = posixpath.normpath(re.sub("/+", "/", unquote(re.sub("^file:(//)?", "", start + rest))))
        if unquote(start + rest).endswith("/") or ".." in unquote(start + rest).split("/"):
            return None
        if text.startswith("/"):
            return text.removeprefix("/data/table/") if text.startswith("/data/table/") else None
        return text if text != "." else None

    expected = [(start + rest, relative_path(start, rest)) for start, rest in parts]
    fine = [pair for pair in expected if pair[1] is not None]
    column = pa.array([path for path, _ in fine], pa.string())
    assert file_paths.decode_all(column, STORE).to_pylist() == [path for _, path in fine]
    for path, decoded in expected:
        if decoded is None:
            with pytest.raises(PathOutsideTableError):
                file_paths.decode(path, STORE)


def test_how_a_path_is_decoded_does_not_depend_on_its_neighbours():
    malformed = ["%%32%35", "%%33%31", "a%", "%4", "%%34%31"]
    for neighbours in ([], ["a%25b"], ["%31%41%33%35%32"]):
        column = pa.array([*malformed, *neighbours])
        assert file_paths.canonical(column, STORE).to_pylist()[: len(malformed)] == ["%25", "%31", "a%", "%4", "%41"]


def test_paths_that_are_not_utf_8_are_decoded_like_a_browser_does():
    assert file_paths.decode("a%FFb", STORE) == "a\ufffdb"


def test_files_of_allowed_folders_are_read_in_all_their_spellings():
    store = LocalStore("/data/table", allowed_roots=["/data/source/", "/other"])
    spellings = pa.array(["/data/source/a%20b", "file:/data/source/a%20b", "file:///data/source//a%20b", "x"])
    assert file_paths.decode_all(spellings, store).to_pylist() == ["/data/source/a b"] * 3 + ["x"]
    assert file_paths.absolute(pa.array(["/data/source/a", "x"]), store).to_pylist() == [
        "/data/source/a",
        "/data/table/x",
    ]
    for outside in (
        "/data/sources/x",
        "/data/source/../x",
        "file://host/data/source/x",
        "s3://data/source/x",
        "/other",
    ):
        with pytest.raises(PathOutsideTableError, match="allowed_roots"):
            file_paths.decode(outside, store)


def test_the_error_names_the_version():
    with pytest.raises(PathOutsideTableError, match=r"'/x/y'.*version 7"):
        file_paths.decode_all(pa.array(["a", "/x/y"]), STORE, version=7)


def test_files_outside_have_one_canonical_form_too():
    spellings = pa.array(["/x/y%20z", "file:/x/y%20z", "file:///x/y%20z", "s3://b/y%20z"])
    assert file_paths.canonical(spellings, STORE).to_pylist() == ["/x/y z"] * 3 + ["s3://b/y%20z"]


@given(st.lists(st.text(st.sampled_from("ab./%:=\n\x00é"), max_size=6), min_size=1, max_size=5), st.integers(0, 2))
def test_the_canonical_form_of_a_column_equals_that_of_its_paths(texts, cut):
    """The canonical form of a column equals that of its paths, wherever the column is cut."""
    column = pa.array(texts, pa.string()).slice(min(cut, len(texts)))
    whole = file_paths.canonical(column, STORE).to_pylist()
    assert whole == [_canonical_beside_an_odd_one(text) for text in column.to_pylist()]


def _canonical_beside_an_odd_one(text):
    # The unusual path next to it makes the fast check fail.
    return file_paths.canonical(pa.array([text, "%41"]), STORE)[0].as_py()


IN_S3 = open_store("s3://bucket/data/table", {"allowed_roots": "s3://bucket/source s3://other-bucket"})


@pytest.mark.parametrize(
    "same",
    [
        "s3://bucket/data/table/x/y",
        "s3a://bucket/data/table/x/y",
        "S3N://bucket/data/table/x/y",
        "s3://bucket//data/./table/x/y",
        "/data/table/x/y",
        "x//y",
        "./x/y",
        "x%2Fy",
    ],
)
def test_spellings_of_one_object_are_one(same):
    assert file_paths.decode(same, IN_S3) == "x/y"
    assert file_paths.canonical(pa.array([same, "plain"]), IN_S3).to_pylist() == ["x/y", "plain"]


@given(st.lists(segments, min_size=1, max_size=4))
def test_an_object_has_one_path_whether_the_log_names_its_bucket_or_not(parts):
    path = "/".join(parts)
    assert file_paths.decode(file_paths.encode(path), IN_S3) == path
    encoded = file_paths.encode(path).removeprefix("./")
    assert file_paths.decode(f"s3a://bucket/data/table/{encoded}", IN_S3) == path


@pytest.mark.parametrize(
    "outside",
    [
        "../x",
        "s3://bucket/data/table/../x",
        "s3://bucket/data/tablet/x",
        "s3://elsewhere/data/table/x",
        "s3://bucket/sourced/x",
        "s3://bucket/source/../x",
        "/x",
        "file:/data/table/x",
        "file:///bucket/data/table/x",
        "gs://bucket/data/table/x",
        "s3://bucket/data/table/",
        "%2Fbucket/other/x",
    ],
)
def test_an_object_outside_the_table_is_refused(outside):
    with pytest.raises(PathOutsideTableError, match=r"outside.*table s3://bucket/data/table"):
        file_paths.decode(outside, IN_S3)


def test_objects_of_allowed_locations_have_whole_paths():
    paths = pa.array(["x", "s3a://bucket/source/y", "/source/z", "s3://other-bucket/a%20b"])
    decoded = file_paths.decode_all(paths, IN_S3)
    assert decoded.to_pylist() == ["x", "s3://bucket/source/y", "s3://bucket/source/z", "s3://other-bucket/a b"]
    assert file_paths.absolute(decoded, IN_S3).to_pylist() == ["s3://bucket/data/table/x", *decoded.to_pylist()[1:]]
