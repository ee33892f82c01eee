"""The local store's own behaviour, beyond the contract of stores."""

import errno
import fcntl
import multiprocessing
import os
import pickle
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakehouse_lib.errors import (
    InvalidArgumentError,
    ObjectNotFoundError,
    PathOutsideTableError,
    StoreError,
    StoreRefusedError,
)
from lakehouse_lib.store import LocalStore, folder_lock, local, open_store
from tests.store_contract import check_read_only


@pytest.fixture
def store(tmp_path):
    return LocalStore(str(tmp_path / "table"))


def test_put_if_absent_has_one_winner_in_every_race(store):
    for round_number in range(50):
        name = f"log/{round_number}"
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda i, name=name: store.put_if_absent(name, bytes([i]) * 1000), range(8)))
        assert won.count(True) == 1
        assert store.read(name) == bytes([won.index(True)]) * 1000


def test_a_checksum_of_hadoop_for_an_older_object_is_deleted(store):
    """Spark could not read the new object: a checkpoint that delta-spark had written, and this library after it."""
    for name in ("first", "second", "third"):
        store.put(f"log/.{name}.crc", b"crc")
    store.put("log/first", b"1")
    assert store.put_if_absent("log/second", b"2")
    assert store.put_if_match("log/third", b"3", None)
    assert sorted(m.path for m in store.walk()) == ["log/first", "log/second", "log/third"]


def test_put_if_absent_leaves_no_temporary_file(store):
    assert store.put_if_absent("log/a", b"1")
    assert not store.put_if_absent("log/a", b"2")
    assert [m.path for m in store.walk()] == ["log/a"]


def test_put_replaces_and_put_if_match_only_replaces_the_expected_object(store):
    store.put("hint", b"1")
    store.put("hint", b"2")
    assert not store.put_if_match("hint", b"3", b"1")
    assert store.put_if_match("hint", b"3", b"2")
    assert store.read("hint") == b"3"
    assert store.put_if_match("new", b"x", None)
    assert not store.put_if_match("new", b"y", None)


def test_put_if_match_moves_a_counter_without_losing_a_step(store):
    store.put("counter", b"0")

    def add_one(_):
        while True:
            content = store.read("counter")
            if store.put_if_match("counter", str(int(content) + 1).encode(), content):
                return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add_one, range(80)))
    assert store.read("counter") == b"80"


def test_list_from_is_sorted_one_folder_deep_and_starts_where_asked(store):
    for name in ("log/b", "log/a", "log/c", "log/deep/x", "other"):
        store.put(name, b"12")
    assert [(m.path, m.size) for m in store.list_from("log", "b")] == [("log/b", 2), ("log/c", 2)]
    assert list(store.list_from("missing")) == []
    assert list(store.list_from("other/below a file")) == []


def test_missing_objects(store):
    with pytest.raises(ObjectNotFoundError, match=r"nothing.*table"):
        store.read("nothing")
    assert store.head("nothing") is None
    store.delete_many(["nothing"])


@pytest.mark.parametrize("path", ["../out", "a/../../out", "/etc/passwd"])
def test_no_path_leaves_the_folder(store, path):
    for access in (store.read, store.folders, lambda folder: list(store.walk(folder))):
        with pytest.raises(PathOutsideTableError, match="leaves"):
            access(path)


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP, errno.ENOSYS])
def test_a_folder_without_hard_links_is_refused(store, monkeypatch, number):
    def no_links(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", no_links)
    with pytest.raises(StoreRefusedError, match="does not support hard links"):
        store.put_if_absent("log/a", b"1")
    assert list(store.walk()) == []


def test_a_child_forked_during_a_put_holds_no_lock(store, monkeypatch):
    put = LocalStore.put
    parent, child = multiprocessing.Pipe()
    forked = []

    def forking(self, path, data):
        process = multiprocessing.get_context("fork").Process(target=child.recv)
        process.start()
        forked.append(process)
        put(self, path, data)

    with monkeypatch.context() as patched:
        patched.setattr(LocalStore, "put", forking)
        assert store.put_if_match("log/a", b"1", None)
    try:
        assert forked[0].is_alive()
        assert store.put_if_match("log/a", b"2", b"1")
    finally:
        parent.send(None)
        forked[0].join()


def test_the_wait_for_a_lock_has_a_limit(store, monkeypatch):
    store.put("log/a", b"1")
    monkeypatch.setattr(folder_lock, "_PATIENCE_SECONDS", 0.1)
    descriptor = os.open(f"{store.root}/log", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(StoreError, match=r"kept .*/log locked for 0.1 s.*lslocks"):
        store.put_if_match("log/a", b"2", b"1")
    os.close(descriptor)
    assert store.put_if_match("log/a", b"2", b"1")


def test_a_file_is_locked_if_folders_cannot_be_locked(store, monkeypatch):
    """On NFS, flock needs a file that is open for writing."""
    flock = fcntl.flock

    def of_nfs(handle, how):
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        flock(handle, how)

    monkeypatch.setattr(fcntl, "flock", of_nfs)
    test_put_if_match_moves_a_counter_without_losing_a_step(store)


def test_a_store_can_be_pickled(store):
    assert pickle.loads(pickle.dumps(store)) == store


@pytest.mark.parametrize(
    ("uri", "options", "what"),
    [
        ("", None, "empty text is not a table location"),
        (None, None, "type NoneType is not a table location"),
        (b"s3://me:hunter2@bucket/t", None, "type bytes is not a table location"),
        ("a\x00b", None, "not a table location"),
        ("\udcff/t", None, "not UTF-8"),
        ("~no-such-user/t", None, "'~no-such-user/t' is not a table location.*whole path"),
        ("gs://bucket/table", None, "the scheme gs: of the location 'gs://bucket/table'"),
        ("http://me:hunter2@host/t", None, "the scheme http: of the location http://…"),
        ("https://host/t?X-Amz-Security-Token=hunter2", None, "the scheme https: of the location https://…"),
        ("http://[::1/t", None, "not a URI"),
        ("file://host/x", None, "'file://host/x' has a host.*file:///path"),
        ("file://me:hunter2/x", None, "file://… has a host"),
        ("file://me:hunter2@host/x", None, "file://… has credentials"),
        ("file://[::1/x", None, "not a URI"),
        ("file:", None, "'file:' has no path"),
        ("file://", None, "'file://' has no path"),
        ("file://localhost", None, "has no path"),
        ("file:~no-such-user/t", None, "'~no-such-user/t' is not a table location"),
        ("file:///orders#1", None, "fragment.*%23"),
        ("file:///orders#", None, "fragment"),
        ("file:///orders?v=1", None, "query.*%3F"),
        ("file:///orders?", None, "query"),
        ("file:///a\tb", None, "control character"),
        ("file:///a\n", None, "control character"),
        ("file:///%00x", None, "NUL"),
        ("file:///%ff", None, "UTF-8"),
        ("file:///\ud800", None, "UTF-8"),
        ("/x", {"secret": "hunter2"}, "storage options"),
    ],
)
def test_a_location_that_is_not_valid_is_refused(uri, options, what):
    with pytest.raises(InvalidArgumentError, match=what) as caught:
        open_store(uri, options)
    assert "hunter2" not in str(caught.value)


def test_a_file_uri_and_its_path_are_one_table(tmp_path):
    assert open_store(f"file://{tmp_path}/a%20b") == open_store(tmp_path / "a b")


def test_a_path_is_used_unchanged(tmp_path, monkeypatch):
    name = "a b%20#1?v=1@x\t\n"
    assert open_store(f"{tmp_path}/{name}").root == f"{tmp_path}/{name}"
    assert open_store(f"file://{tmp_path}/a%20b%2520%231%3Fv=1@x%09%0A").root == f"{tmp_path}/{name}"
    monkeypatch.chdir(tmp_path)
    assert open_store("orders#1").root == f"{tmp_path}/orders#1"


def test_a_parent_of_a_symbolic_link_is_the_parent_of_its_target(tmp_path, monkeypatch):
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "far" / "deep")
    monkeypatch.chdir(tmp_path)
    for uri in (f"{tmp_path}/link/../t", "link/../t", f"file://{tmp_path}/link/../t", f"file://{tmp_path}/link/%2E./t"):
        store = open_store(uri)
        assert store.root == f"{tmp_path}/far/t"
        store.put("x", uri.encode())
        with open(f"{tmp_path}/link/../t/x", "rb") as as_the_kernel_does:
            assert as_the_kernel_does.read() == uri.encode()
    assert open_store(f"{tmp_path}/link/t").root == f"{tmp_path}/link/t"
    assert open_store(f"{tmp_path}/none/../t").root == f"{tmp_path}/t"


def test_new_folders_of_the_first_commit_are_made_durable(tmp_path, monkeypatch):
    synced = []
    real = local._sync
    monkeypatch.setattr(local, "_sync", lambda path: (synced.append(path), real(path)))
    LocalStore(str(tmp_path / "new" / "table")).put_if_absent("_delta_log/0.json", b"{}")
    assert {tmp_path, tmp_path / "new", tmp_path / "new" / "table", tmp_path / "new" / "table" / "_delta_log"} <= set(
        synced
    )


def test_the_folder_that_the_first_file_makes_is_made_durable(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(local, "_sync", synced.append)
    store = LocalStore(str(tmp_path / "new" / "table"))
    with store.open_output("a=1/file") as sink:
        sink.write(b"x")
    store.sync(["a=1/file"])
    table = tmp_path / "new" / "table"
    assert {tmp_path, tmp_path / "new", table, table / "a=1", table / "a=1" / "file"} == set(synced)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EBADF])
def test_files_are_synced_if_folders_cannot_be_synced(store, monkeypatch, number):
    real, refused = os.fsync, stat.S_ISDIR

    def fsync(handle):
        if refused(os.fstat(handle).st_mode):
            raise OSError(number, os.strerror(number))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    assert store.put_if_absent("log/a", b"1")
    store.sync(["log/a"])
    refused = stat.S_ISREG
    with pytest.raises(StoreError, match="log/a"):
        store.sync(["log/a"])


def test_a_walk_sees_a_log_that_is_a_link_and_follows_no_other(tmp_path):
    """The table that contains the link would not know the owner of these files."""
    for name in ("elsewhere/00.json", "other/file", "table/inner/file"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "table" / "inner" / "_delta_log").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "table" / "inner" / "link").symlink_to(tmp_path / "other")
    (tmp_path / "table" / "back").symlink_to("inner/../inner")
    (tmp_path / "table" / "inner" / "up").symlink_to("../..")
    (tmp_path / "table" / "gone").symlink_to("nowhere")
    (tmp_path / "opened").symlink_to("table")
    walked = {meta.path: meta.link for meta in LocalStore(str(tmp_path / "opened")).walk()}
    assert walked == {
        "inner/file": "",
        "inner/_delta_log/00.json": "",
        "inner/link": str(tmp_path / "other"),
        "back": str(tmp_path / "table" / "inner"),
        "inner/up": str(tmp_path),
        "gone": str(tmp_path / "table" / "nowhere"),
    }


def test_files_of_allowed_folders_are_read_and_never_changed(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_bytes(b"theirs")
    (tmp_path / "secret").write_bytes(b"nobody's")
    store = open_store(tmp_path / "table", {"allowed_roots": os.pathsep.join([str(other), str(tmp_path / "none")])})
    store = pickle.loads(pickle.dumps(store))
    path = str(other / "file")
    check_read_only(store, path, b"theirs")
    for outside in (str(tmp_path / "secret"), f"{other}/../secret", f"{other}2/file", str(other)):
        with pytest.raises(PathOutsideTableError):
            store.read(outside)
    assert [child.name for child in other.iterdir()] == ["file"]
    assert (other / "file").read_bytes() == b"theirs"


@pytest.mark.parametrize("roots", ["relative", "/a/../b", "/a\x00", "/\udcff", ["/a"]])
def test_allowed_folders_are_absolute(tmp_path, roots):
    with pytest.raises(InvalidArgumentError, match="allowed_roots"):
        open_store(tmp_path, {"allowed_roots": roots})


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_put_that_was_not_stored_raises_a_refused_error(store, monkeypatch, number):
    def full(*_):
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(StoreRefusedError, match=rf"log/a: {os.strerror(number)}.*table") as refused:
            store.put_if_absent("log/a", b"1")
    assert refused.value.hint
    assert list(store.walk()) == []
    # After the link, a crash may leave the commit or not.
    store.put("log/b", b"1")
    with monkeypatch.context() as patched:
        patched.setattr(local, "_sync", full)
        with pytest.raises(StoreError) as caught:
            store.put_if_absent("log/c", b"1")
    assert not isinstance(caught.value, StoreRefusedError)
