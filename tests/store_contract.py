"""The contract of every store. A test class of a store inherits these tests and has a fixture ``store``."""

from __future__ import annotations

import itertools
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib.errors import ObjectNotFoundError, PathOutsideTableError

ODD_NAMES = [
    "a b",
    "a+b",
    "a%20b",
    "a%2520b",
    "é",
    "日本",
    "day=2024-01-01/x",
    "_hidden/.dot",
    "q?x=1&y#z",
    "it's",
    "(1)",
    "a~b",
    "a:b",
    "a;b,c@d",
    "tab\there",
]


class StoreContract:
    """Tests of the fixture ``store``, an empty store. ``rounds`` is the number of races, lower for a slow server."""

    rounds = 10

    def test_an_object_is_read_as_it_was_put(self, store):
        before = time.time() * 1000
        store.put("log/a", b"one")
        assert store.read("log/a") == b"one"
        store.put("log/a", b"two!")
        assert store.read("log/a") == b"two!"
        meta = store.head("log/a")
        assert (meta.path, meta.size) == ("log/a", 4)
        assert before - 5_000 < meta.modified < time.time() * 1000 + 5_000
        assert list(store.list_from("log")) == [meta]
        assert list(store.walk()) == [meta]
        store.put("empty", b"")
        assert store.read("empty") == b""
        assert store.head("empty").size == 0

    def test_missing_objects_of_every_call(self, store):
        with pytest.raises(ObjectNotFoundError, match=r"nothing.*table"):
            store.read("nothing")
        with pytest.raises(ObjectNotFoundError, match=r"nothing.*table"):
            store.open_input("nothing")
        assert store.head("nothing") is None
        assert list(store.list_from("nothing")) == []
        assert list(store.walk("nothing")) == []
        assert list(store.walk()) == []
        store.delete_many(["nothing"])
        store.delete_many([])
        store.sync([])

    def test_put_if_absent_creates_once(self, store):
        assert store.put_if_absent("_delta_log/0.json", b"1")
        assert not store.put_if_absent("_delta_log/0.json", b"2")
        assert not store.put_if_absent("_delta_log/0.json", b"1")
        assert store.read("_delta_log/0.json") == b"1"
        assert [meta.path for meta in store.walk()] == ["_delta_log/0.json"]

    def test_put_if_absent_has_one_winner_in_every_race(self, store):
        for number in range(self.rounds):
            name = f"_delta_log/{number}"
            bodies = [bytes([thread]) * 100_000 for thread in range(8)]
            with ThreadPoolExecutor(8) as pool:
                won = list(pool.map(lambda body, name=name: store.put_if_absent(name, body), bodies))
            assert won.count(True) == 1
            assert store.read(name) == bodies[won.index(True)]

    def test_put_if_match_replaces_only_the_expected_object(self, store):
        store.put("hint", b"1")
        store.put("hint", b"2")
        assert not store.put_if_match("hint", b"3", b"1")
        assert store.put_if_match("hint", b"3", b"2")
        assert store.read("hint") == b"3"
        assert not store.put_if_match("hint", b"4", None)
        assert store.put_if_match("new", b"x", None)
        assert not store.put_if_match("new", b"y", None)
        assert not store.put_if_match("none", b"y", b"x")
        assert store.head("none") is None

    def test_put_if_match_moves_a_counter_without_losing_a_step(self, store):
        store.put("counter", b"0")
        steps = 3 * self.rounds

        def add_one(_):
            while True:
                content = store.read("counter")
                if store.put_if_match("counter", str(int(content) + 1).encode(), content):
                    return

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(add_one, range(steps)))
        assert store.read("counter") == str(steps).encode()

    def test_list_from_is_sorted_one_folder_deep_and_starts_where_asked(self, store):
        for name in ("log/b", "log/a", "log/c", "log/deep/x", "log2/a", "log-/a", "other"):
            store.put(name, b"12")
        assert [(m.path, m.size) for m in store.list_from("log", "b")] == [("log/b", 2), ("log/c", 2)]
        assert [m.path for m in store.list_from("log")] == ["log/a", "log/b", "log/c"]
        assert [m.path for m in store.list_from("log", "bb")] == ["log/c"]
        assert [m.path for m in store.list_from("log", "z")] == []
        assert [m.path for m in store.list_from("")] == ["other"]
        assert list(store.list_from("missing")) == []
        assert list(store.list_from("other/below a file")) == []

    def test_list_from_a_version_returns_its_names_and_no_earlier_names(self, store):
        names = [
            f"{version:020d}{end}" for version in (8, 9, 10, 11, 99, 100) for end in (".checkpoint.parquet", ".json")
        ]
        for name in ["_last_checkpoint", ".tmp", *names]:
            store.put(f"_delta_log/{name}", b"")
        for version in (0, 8, 9, 10, 11, 12, 99, 100, 101):
            start = f"{version:020d}"
            expected = [f"_delta_log/{name}" for name in [*names, "_last_checkpoint"] if name >= start]
            assert [meta.path for meta in store.list_from("_delta_log", start)] == expected

    def test_walk_returns_all_objects_below_a_folder(self, store):
        names = {"a", "b/c", "b/d/e", "b2/f", "_delta_log/0.json"}
        for name in names:
            store.put(name, b"x")
        assert {meta.path for meta in store.walk()} == names
        assert {meta.path for meta in store.walk("b")} == {"b/c", "b/d/e"}

    def test_walk_continues_after_a_path(self, store):
        paths = ["a.csv", "a/1", "a/2", "b.csv", "b/é", "b/z"]
        for path in paths:
            store.put(path, b"")
        for after in (*paths, "a", "a/", "a/1~", "zz"):
            walked = [meta.path for meta in store.walk("", after)]
            assert (walked if store.is_remote else sorted(walked)) == [path for path in sorted(paths) if path > after]
        for after in ("", "a", "a/1", "b"):
            assert {meta.path for meta in store.walk("a", after)} == {path for path in ("a/1", "a/2") if path > after}

    def test_ranges_are_of_the_object_with_the_tag(self, store):
        store.put("x", b"0123456789")
        store.put("empty", b"")
        time.sleep(0.05)  # a local store has no tag for a file that was written just now
        tag = store.head("x").tag
        assert store.read_range("x", 2, 3, tag) == b"234"
        assert store.read_range("x", 8, 5, tag) == b"89"
        assert store.read_range("empty", 0, 1, store.head("empty").tag) == b""
        assert store.read_range("nothing", 0, 1, tag) is None
        store.put("x", b"9876543210")
        assert store.read_range("x", 2, 3, tag) is None

    def test_folders_are_those_directly_in_a_folder(self, store):
        for name in ("a", "b/c", "b/d/e", "b2/f", "_delta_log/0.json", "b/d/g/h"):
            store.put(name, b"x")
        assert store.folders() == ["_delta_log", "b", "b2"]
        assert store.folders("b") == ["d"]
        assert store.folders("b/d") == ["g"]
        assert store.folders("missing") == store.folders("a") == []

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_names_are_stored_unchanged(self, store, name):
        assert store.put_if_absent(f"dir/{name}", b"x")
        assert store.read(f"dir/{name}") == b"x"
        assert store.head(f"dir/{name}").size == 1
        assert [meta.path for meta in store.walk()] == [f"dir/{name}"]
        with store.open_output(f"{name}.2") as sink:
            sink.write(b"yy")
        with store.open_input(f"{name}.2") as source:
            assert source.read() == b"yy"
        store.delete_many([f"dir/{name}", f"{name}.2"])
        assert list(store.walk()) == []

    def test_delete_many_deletes_only_the_named_objects(self, store):
        names = [f"d/{number}" for number in range(12)]
        for name in names:
            store.put(name, b"")
        store.delete_many(iter([*names[:10], names[0], "d/gone"]))
        assert sorted(meta.path for meta in store.walk()) == ["d/10", "d/11"]

    @pytest.mark.parametrize("size", [0, 10, 600 << 10, 12 << 20])
    def test_a_data_file_is_written_and_read_anywhere(self, store, size):
        data = np.random.default_rng(size).bytes(size)
        with store.open_output("p=1/file.parquet") as sink:
            for start in range(0, size, 5 << 20):
                sink.write(data[start : start + (5 << 20)])
            assert sink.tell() == size
        store.sync(["p=1/file.parquet"])
        assert store.head("p=1/file.parquet").size == size
        with store.open_input("p=1/file.parquet") as source:
            assert source.size() == size
            for start, length in itertools.product((0, size // 3, max(0, size - 5)), (1, 4, 100_000)):
                source.seek(start)
                assert source.read(length) == data[start : start + length]
            source.seek(0)
            assert source.read() == data

    def test_parquet_is_read_by_the_column(self, store):
        table = pa.table({"a": range(300_000), "b": np.random.default_rng(1).random(300_000)})
        with store.open_output("t.parquet") as sink:
            pq.write_table(table, sink, row_group_size=100_000)
        with store.open_input("t.parquet") as source, pq.ParquetFile(source) as file:
            assert file.read_row_group(1, ["b"])["b"].equals(table["b"].slice(100_000, 100_000))

    @pytest.mark.parametrize("path", ["../out", "a/../../out", "/etc/passwd"])
    def test_no_path_leaves_the_folder(self, store, path):
        for touch in (
            lambda: store.read(path),
            lambda: store.head(path),
            lambda: store.open_input(path),
            lambda: store.open_output(path),
            lambda: store.put(path, b""),
            lambda: store.put_if_absent(path, b""),
            lambda: store.put_if_match(path, b"", b"x"),
            lambda: store.delete_many([path]),
        ):
            with pytest.raises(PathOutsideTableError, match="leaves"):
                touch()
        assert list(store.walk()) == []

    def test_a_store_can_be_pickled(self, store):
        copy = pickle.loads(pickle.dumps(store))
        assert copy == store
        assert hash(copy) == hash(store)
        assert copy.root == store.root
        copy.put("x", b"1")
        assert store.read("x") == b"1"


def check_read_only(store, path, content):
    """Check that a store reads an object of an allowed root, and refuses to write or delete there."""
    assert store.read(path) == content
    assert store.head(path).size == len(content)
    with store.open_input(path) as source:
        assert source.read() == content
    store.sync([path])
    for write in (
        lambda: store.put(path, b"ours"),
        lambda: store.put_if_absent(f"{path}2", b"ours"),
        lambda: store.put_if_match(path, b"ours", content),
        lambda: store.open_output(path),
        lambda: store.delete_many([path]),
    ):
        with pytest.raises(PathOutsideTableError):
            write()
