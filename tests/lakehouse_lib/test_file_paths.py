"""Paths from the log to the store and back."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse_lib import file_paths
from lakehouse_lib.errors import PathOutsideTableError
from lakehouse_lib.store import LocalStore

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
    ["../x", "a/../../x", "%2e%2e/x", "/data/other/x", "/data/table/../x", "/data/tablet/x", "s3://bucket/x", ".", ""],
)
def test_a_path_out_of_the_table_is_refused(outside):
    with pytest.raises(PathOutsideTableError, match=r"outside.*table /data/table"):
        file_paths.decode(outside, STORE)
