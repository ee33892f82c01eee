"""Tables in S3 (moto's server): every verb, and the requests that it makes."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from lakehouse_lib import DeltaTable, write_deltalake
from lakehouse_lib.errors import CommitUnknownError, DeltaError, StoreError, TableNotFoundError
from lakehouse_lib.log.cache import CACHE
from lakehouse_lib.log.segment import oldest_version
from lakehouse_lib.privacy.purge import prove, purge
from lakehouse_lib.store import open_store
from lakehouse_lib.transaction import put_commit
from tests.s3_server import Answer, LostAnswer
from tests.slow_cases import some_slow
from tests.table_on_s3 import every_verb, ids, rows

TABLES = Path(__file__).parents[2] / "data" / "delta_spark" / "tables"


@pytest.fixture(autouse=True)
def _nothing_cached():
    CACHE.clear()


def upload(folder, uri, options):
    store = open_store(uri, options)
    for file in folder.rglob("*"):
        if file.is_file():
            store.put(file.relative_to(folder).as_posix(), file.read_bytes())


@pytest.mark.slow
def test_every_verb_with_delta_rs_beside_us(s3_server, location):
    every_verb(location, s3_server.options)


@pytest.mark.parametrize(
    "name",
    some_slow(["checkpoint_v2_parquet", "deletion_vectors_checkpointed", "mapping_by_id", "partition_by_string"], 1),
)
def test_tables_of_other_writers_read_as_on_a_disk(s3_server, location, name):
    upload(TABLES / name, location, s3_server.options)
    local, remote = DeltaTable(TABLES / name), DeltaTable(location, storage_options=s3_server.options)
    for version in range(oldest_version(local.store), local.version() + 1):
        local.load_as_version(version)
        remote.load_as_version(version)
        assert remote.to_pyarrow_table().equals(local.to_pyarrow_table())
        assert remote.get_add_actions(flatten=True).equals(local.get_add_actions(flatten=True))


@pytest.mark.parametrize("name", some_slow(["change_data_feed", "change_data_feed_vectors"], 1))
def test_change_data_reads_as_it_does_on_a_disk(s3_server, location, name):
    upload(TABLES / name, location, s3_server.options)
    local, remote = DeltaTable(TABLES / name), DeltaTable(location, storage_options=s3_server.options)
    # The times are those of the uploads.
    columns = [name for name in local.load_cdf().schema.names if name != "_commit_timestamp"]
    assert remote.load_cdf(columns=columns).read_all().equals(local.load_cdf(columns=columns).read_all())


def test_paths_that_name_the_bucket_are_files_of_the_table(s3_server, location):
    write_deltalake(location, rows(0), storage_options=s3_server.options)
    store = open_store(location, s3_server.options)
    data = store.read("_delta_log/00000000000000000000.json")
    store.put("_delta_log/00000000000000000000.json", data.replace(b'"path":"', f'"path":"{location}/'.encode()))
    table = DeltaTable(location, storage_options=s3_server.options)
    assert ids(table.to_pyarrow_table()) == list(range(100))
    (uri,) = table.file_uris()
    assert uri.startswith(f"{location}/part-")
    assert table.vacuum(retention_hours=0, enforce_retention_duration=False) == []
    store.put(
        "_delta_log/00000000000000000000.json",
        data.replace(b'"path":"', location.replace("s3://", '"path":"s3a://').encode() + b"/"),
    )
    CACHE.clear()
    assert ids(DeltaTable(location, storage_options=s3_server.options).to_pyarrow_table()) == list(range(100))


def test_requests_of_each_verb_on_a_table(s3_server, location):
    options = s3_server.options
    write_deltalake(f"{location}-before", rows(0), storage_options=options)  # the probe
    counted = {}

    def count(name, act):
        s3_server.counted()
        result = act()
        counted[name] = s3_server.counted()
        return result

    count("create", lambda: write_deltalake(location, rows(0), storage_options=options))
    table = count("open", lambda: DeltaTable(location, storage_options=options))
    count("append", lambda: write_deltalake(table, rows(100), mode="append"))
    count("append by location", lambda: write_deltalake(location, rows(200), mode="append", storage_options=options))
    count("update", table.update_incremental)
    count("read three files", table.to_pyarrow_table)
    count("delete from one file", lambda: table.delete("id = 5"))
    count("compact", table.optimize.compact)
    write_deltalake(table, rows(300), mode="append")
    rewrite = count("z_order", lambda: table.optimize.z_order(["id"]))
    assert (rewrite["numFilesRemoved"], rewrite["numFilesAdded"]) == (2, 1)
    count("checkpoint", table.create_checkpoint)
    count("history", table.history)
    count("is_deltatable", lambda: DeltaTable.is_deltatable(location, options))
    count("vacuum, dry", lambda: table.vacuum(retention_hours=0, enforce_retention_duration=False))
    count("vacuum", lambda: table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False))
    CACHE.clear()
    count("open by a checkpoint", lambda: DeltaTable(location, storage_options=options))
    more = {
        name: {verb: number for verb, number in verbs.items() if number > REQUESTS[name].get(verb, 0)}
        for name, verbs in counted.items()
    }
    assert {name: verbs for name, verbs in more.items() if verbs} == {}, counted


#: The most requests of each verb. A commit is one PUT. The other requests are the listing, reads of new log objects
#: (an object is cached when it is two seconds old, so here none is), data files, and post-commit hooks.
REQUESTS = {
    "create": {"GET": 1, "LIST": 2, "PUT": 2},
    "open": {"GET": 2, "LIST": 1},
    "append": {"GET": 1, "HEAD": 2, "LIST": 1, "PUT": 3},
    "append by location": {"GET": 5, "HEAD": 1, "LIST": 1, "PUT": 3},
    "update": {"GET": 1, "LIST": 1},
    "read three files": {"GET": 3},
    "delete from one file": {"GET": 3, "HEAD": 2, "LIST": 1, "PUT": 3},
    "compact": {"GET": 4, "HEAD": 2, "LIST": 1, "PUT": 3},
    "z_order": {"GET": 3, "HEAD": 2, "LIST": 2, "PUT": 4},
    "checkpoint": {"GET": 1, "HEAD": 1, "PUT": 2},
    "history": {"GET": 9, "HEAD": 2, "LIST": 3},
    "is_deltatable": {"GET": 1, "LIST": 1},
    "vacuum, dry": {"GET": 2, "LIST": 7},
    "vacuum": {"DELETE": 1, "GET": 6, "HEAD": 2, "LIST": 10, "PUT": 5},
    "open by a checkpoint": {"GET": 5, "LIST": 1},
}


@pytest.mark.slow
def test_of_a_large_file_the_columns_that_are_asked_for_are_read(s3_server, location):
    count = 1_200_000
    noise = np.random.default_rng(0)
    large = pa.table({"id": range(count), "a": noise.random(count), "b": noise.random(count)})
    write_deltalake(location, large, storage_options=s3_server.options, target_file_size=1 << 30)
    assert {call.verb for call in s3_server.requests if call.key.endswith(".parquet")} == {"POST", "PUT"}  # in parts
    table = DeltaTable(location, storage_options=s3_server.options)
    for columns, filters, expected, reads in (
        (["b"], None, large.select(["b"]), 4),
        (["a"], "id = 1100000", large.select(["a"]).slice(1_100_000, 1), 3),
    ):
        s3_server.counted()
        assert table.to_pyarrow_table(columns=columns, filters=filters).equals(expected)
        assert s3_server.counted() == {"GET": reads, "HEAD": 1}
    assert table.delete("id < 1000000")["num_deleted_rows"] == 1_000_000
    assert table.count() == 200_000


def test_a_refused_part_of_a_data_file_is_an_error_with_a_hint(s3_server, location):
    noise = pa.table({"id": range(100_000), "a": np.random.default_rng(0).random(100_000)})
    write_deltalake(location, noise, storage_options=s3_server.options)
    table = DeltaTable(location, storage_options=s3_server.options)
    requests = []

    def interfere(request, forward, _environ):
        if request.verb == "GET" and request.key.endswith(".parquet"):
            requests.append(request)
            if len(requests) > 1:  # the first request is boto3's, for the end of the file
                return Answer.error(403, "AccessDenied")
        return forward()

    with s3_server.interfering(interfere), pytest.raises(StoreError, match="cannot be read") as error:
        table.to_pyarrow_table()
    assert "Let these credentials list, read" in (error.value.hint or "")


def test_a_lost_answer_to_a_commit_is_resolved_by_the_log(s3_server, location):
    write_deltalake(location, rows(0), storage_options=s3_server.options)
    lost = []

    def interfere(request, forward, _environ):
        answer = forward()
        if request.verb == "PUT" and request.key.endswith("1.json") and not lost:
            lost.append(request)
            raise LostAnswer
        return answer

    with s3_server.interfering(interfere):
        write_deltalake(location, rows(100), mode="append", storage_options=s3_server.options)
    assert lost
    table = DeltaTable(location, storage_options=s3_server.options)
    assert table.version() == 1
    assert ids(table.to_pyarrow_table()) == list(range(200))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "code", "hint"),
    [
        (403, "AccessDenied", "Let these credentials list, read, write and delete"),
        (403, "RequestTimeTooSkewed", "Set this machine's clock"),
        (400, "EntityTooLarge", "write smaller ones"),
        (403, "InvalidAccessKeyId", "does not know the access key"),
        (400, "ExpiredToken", "have expired"),
        (503, "SlowDown", "fewer requests"),
    ],
)
def test_a_failed_write_of_a_data_file_changes_nothing(s3_server, location, status, code, hint):
    write_deltalake(location, rows(0), storage_options=s3_server.options)

    def interfere(request, forward, _environ):
        if request.verb == "PUT" and request.key.endswith(".parquet"):
            return Answer.error(status, code)
        return forward()

    message = rf"part-.*cannot be written.*table s3://.*{hint}"
    with s3_server.interfering(interfere), pytest.raises(StoreError, match=message):
        write_deltalake(location, rows(100), mode="append", storage_options=s3_server.options)
    table = DeltaTable(location, storage_options=s3_server.options)
    assert table.version() == 0
    assert len([meta for meta in table.store.walk() if meta.path.endswith(".parquet")]) == 1


def test_a_commit_that_is_throttled_for_too_long_is_an_error(s3_server, location, monkeypatch):
    write_deltalake(location, rows(0), storage_options=s3_server.options)
    monkeypatch.setattr(put_commit, "_ATTEMPTS", 2)

    def interfere(request, forward, _environ):
        return Answer.error(503, "SlowDown") if request.verb == "PUT" and "_delta_log" in request.key else forward()

    options = {**s3_server.options, "retry_timeout": "100ms"}
    message = r"did not confirm the commit.*S3 answered SlowDown.*tried for 0.1 s.*history\(\) shows"
    with s3_server.interfering(interfere), pytest.raises(CommitUnknownError, match=message):
        write_deltalake(location, rows(100), mode="append", storage_options=options)


def test_a_read_only_bucket(s3_server, location):
    write_deltalake(location, rows(0), storage_options=s3_server.options)

    def interfere(request, forward, _environ):
        return forward() if request.verb in ("GET", "HEAD", "LIST") else Answer.error(403, "AccessDenied")

    with s3_server.interfering(interfere):
        table = DeltaTable(location, storage_options=s3_server.options)
        assert table.to_pyarrow_table().num_rows == 100
        with pytest.raises(StoreError, match=r"ACCESS_DENIED|AccessDenied"):
            table.delete("id = 5")
    assert DeltaTable(location, storage_options=s3_server.options).version() == 0


def test_a_missing_table_and_a_missing_bucket(s3_server, location):
    with pytest.raises(TableNotFoundError, match=f"DELTA_TABLE_NOT_FOUND.*table {location}"):
        DeltaTable(location, storage_options=s3_server.options)
    options = s3_server.options
    with pytest.raises(StoreError, match="NoSuchBucket"):
        DeltaTable("s3://no-such-bucket/t", storage_options=options)


def test_a_table_recreated_within_a_second_is_detected(s3_server, location):
    # Sizes and times (in whole seconds in S3) are equal, but tags differ.
    options = s3_server.options
    write_deltalake(location, rows(0), storage_options=options)
    table = DeltaTable(location, storage_options=options)
    table.store.delete_many([meta.path for meta in table.store.walk()])
    write_deltalake(location, rows(100), storage_options=options)
    before = sorted(meta.path for meta in table.store.walk())
    for verb in (table.update_incremental, lambda: write_deltalake(table, rows(200), mode="append"), table.delete):
        with pytest.raises(TableNotFoundError, match=f"DELTA_TABLE_NOT_FOUND.*table {location}"):
            verb()
    assert sorted(meta.path for meta in table.store.walk()) == before


def test_credentials_may_be_set_after_the_first_error(s3_server, location, monkeypatch):
    options = {name: value for name, value in s3_server.options.items() if "key" not in name}
    with pytest.raises(StoreError, match="no credentials"):
        write_deltalake(location, rows(0), storage_options=options)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    write_deltalake(location, rows(0), storage_options=options)
    assert DeltaTable(location, storage_options=options).version() == 0


def test_a_key_without_a_valid_path_is_kept_by_vacuum_and_unreadable_for_proofs(s3_server, location):
    options = s3_server.options
    for number in range(2):
        write_deltalake(location, rows(100 * number), mode="overwrite", storage_options=options)
    key = f"{location.removeprefix('s3://bucket/')}//old.parquet"
    open_store(location, options)._client.call(
        "x", lambda client: client.put_object(Bucket="bucket", Key=key, Body=b"PAR1")
    )
    table = DeltaTable(location, storage_options=options)
    (gone,) = table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    assert not gone.startswith("s3:")
    assert list(prove(location, "id = 1", storage_options=options).unreadable) == [f"s3://bucket/{key}"]
    assert list(purge(location, "id = 1", storage_options=options).unreadable) == [f"s3://bucket/{key}"]


@pytest.mark.slow
def test_a_table_that_one_process_writes_needs_no_conditional_put(s3_server, location):
    def interfere(_request, forward, environ):
        environ.pop("HTTP_IF_NONE_MATCH", None)
        environ.pop("HTTP_IF_MATCH", None)
        return forward()

    options = {**s3_server.options, "single_writer": "true"}
    with s3_server.interfering(interfere):
        write_deltalake(location, rows(0), storage_options=options)
        table = DeltaTable(location, storage_options=options)
        for number in range(1, 12):
            write_deltalake(table, rows(100 * number), mode="append")
        assert ids(table.to_pyarrow_table()) == list(range(1200))
        # Another process writes anyway, and takes one of our versions for its own.
        foreign = open_store(location, s3_server.options)
        foreign.put(f"_delta_log/{11:020d}.json", foreign.read(f"_delta_log/{10:020d}.json"))
        with pytest.raises(DeltaError, match="was overwritten by another writer"):
            write_deltalake(table, rows(5000), mode="append")


def test_a_shallow_clone_is_read_where_its_source_is_allowed(s3_server, location):
    options = s3_server.options
    write_deltalake(f"{location}-source", rows(0), storage_options=options)
    source, clone = open_store(f"{location}-source", options), open_store(location, options)
    data = source.read("_delta_log/00000000000000000000.json")
    clone.put("_delta_log/00000000000000000000.json", data.replace(b'"path":"', f'"path":"{source.root}/'.encode()))
    with pytest.raises(DeltaError, match=r"outside the table's folder.*allowed_roots"):
        DeltaTable(location, storage_options=options).to_pyarrow_table()
    table = DeltaTable(location, storage_options={**options, "allowed_roots": source.root})
    assert ids(table.to_pyarrow_table()) == list(range(100))
    assert ids(table.to_pyarrow_dataset().to_table()) == list(range(100))
    assert isinstance(pa.table(table), pa.Table)
    assert table.delete("id < 50")["num_deleted_rows"] == 50
    assert ids(table.to_pyarrow_table()) == list(range(50, 100))
    assert ids(DeltaTable(f"{location}-source", storage_options=options).to_pyarrow_table()) == list(range(100))


def test_a_shallow_clone_of_a_source_with_a_space_and_a_percent_sign(s3_server, location):
    source, clone = f"{location}/a%20b%2520c", f"{location}/clone"
    write_deltalake(source, rows(0), storage_options=s3_server.options)
    table = DeltaTable(source, storage_options=s3_server.options)
    assert table.store.root == f"{location}/a b%20c"
    copy = table.clone(clone, is_shallow=True, storage_options=s3_server.options)
    assert ids(copy.to_pyarrow_table()) == list(range(100))
