"""Landing folders in an object store, on an S3 server in this process."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import boto3
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib.errors import LandingError, SourceRefusedError, StoreError
from lakehouse_lib.ingestion.append import plan_append
from lakehouse_lib.ingestion.file_part import FilePart
from lakehouse_lib.ingestion.landing import Fingerprint, LandedFile, Landing, is_changed, objects, open_landing
from lakehouse_lib.ingestion.quarantine import quarantine_schema
from lakehouse_lib.ingestion.sources.blocks import TextBlock, TypedBlock
from lakehouse_lib.ingestion.sources.csv import read_csv
from lakehouse_lib.ingestion.sources.json.reader import read_json
from lakehouse_lib.ingestion.sources.parquet import read_parquet
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from lakehouse_lib.ingestion.tasks.file_task import FileTask
from lakehouse_lib.ingestion.tasks.parse import Parser
from lakehouse_lib.schema import Schema
from lakehouse_lib.store import LocalStore, ObjectMeta
from tests.lakehouse_lib.ingestion.batches.parsed_file import run
from tests.landed_files import listed
from tests.s3_server import Answer, Forward, Request, S3Server

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])


class Bucket:
    """A landing folder in the bucket of the tests."""

    def __init__(self, server: S3Server, location: str) -> None:
        self.server, self.location = server, location
        self._prefix = location.removeprefix("s3://bucket/")
        keys = {"aws_access_key_id": "testing", "aws_secret_access_key": "testing"}
        self._client = boto3.client("s3", endpoint_url=server.url, region_name="us-east-1", **keys)

    def land(self, name: str, content: bytes = b"id,note\n1,x\n") -> None:
        self._client.put_object(Bucket="bucket", Key=f"{self._prefix}/{name}", Body=content)

    def delete(self, name: str) -> None:
        self._client.delete_object(Bucket="bucket", Key=f"{self._prefix}/{name}")

    def landing(self, pattern: str | None = None) -> Landing:
        return open_landing(self.location, self.server.options, pattern=pattern)

    def fingerprint(self, name: str) -> Fingerprint:
        taken = self.landing().fingerprint(listed(self.landing("**/*"))[name])
        assert taken is not None
        return taken

    def file(self, name: str) -> LandedFile:
        return LandedFile(self.landing(), self.fingerprint(name))


@pytest.fixture
def bucket(s3_server: S3Server, location: str) -> Bucket:
    return Bucket(s3_server, location)


def test_files_are_listed_by_name_without_hidden_and_unfinished_ones(bucket: Bucket) -> None:
    for name in (
        "b.csv",
        "a.csv",
        "é.csv",
        ".hidden.csv",
        "_started.csv",
        "c.csv.tmp",
        "_temporary/0/d.csv",
        "folder/",
    ):
        bucket.land(name)
    files = listed(bucket.landing())
    assert list(files) == ["a.csv", "b.csv", "é.csv"]
    assert files["a.csv"].size == 12
    assert files["a.csv"].tag
    assert listed(bucket.landing(), "a.csv").keys() == {"b.csv", "é.csv"}
    assert bucket.landing().find("a.csv") == files["a.csv"]
    assert bucket.landing().find("nothing") is None


def test_objects_of_folders_need_a_pattern(bucket: Bucket) -> None:
    for name in ("day=1/a.csv", "day=1/b.json", "day=2/x/c.csv", "day=2/_d.csv", "e.csv"):
        bucket.land(name)
    with pytest.raises(LandingError, match=r"'day=1/a\.csv' of an object in s3://bucket/.* is in a folder"):
        listed(bucket.landing())
    assert list(listed(bucket.landing("**/*.csv"))) == ["day=1/a.csv", "day=2/x/c.csv", "e.csv"]
    assert list(listed(bucket.landing("*.csv"))) == ["e.csv"]
    bucket.server.requests.clear()
    assert list(listed(bucket.landing("day=1/*"))) == ["day=1/a.csv", "day=1/b.json"]
    assert [request.key.removesuffix("/").rpartition("/")[2] for request in bucket.server.requests] == ["day=1"]


def test_a_listing_continues_after_a_name_without_reading_earlier_names(bucket: Bucket) -> None:
    for number in range(30):
        bucket.land(f"{number:03d}.csv")
    assert len(listed(bucket.landing(), "027.csv")) == 2
    (listing,) = (request for request in bucket.server.requests if request.verb == "LIST")
    assert listing.key


def test_an_empty_prefix_has_no_files_and_a_missing_bucket_is_an_error(bucket: Bucket) -> None:
    assert listed(bucket.landing()) == {}
    with pytest.raises(StoreError, match="NoSuchBucket"):
        listed(open_landing("s3://nowhere/x", bucket.server.options))


@pytest.mark.parametrize("size", [0, 1, 70_000, 9 << 20])
def test_reads_in_ranges_give_the_bytes_of_the_object(bucket: Bucket, size: int) -> None:
    content = np.random.default_rng(size).bytes(size)
    bucket.land("a", content)
    with pickle.loads(pickle.dumps(bucket.file("a"))).open() as file:
        assert file.size() == size
        assert file.read() == content
        for start, length in ((0, 5), (size // 2, 100_000), (max(0, size - 3), 10), (size, 1)):
            file.seek(start)
            assert file.read(length) == content[start : start + length]
    bucket.server.requests.clear()
    with bucket.file("a").open() as file:
        for _ in range(0, size, 100_000):
            file.read(100_000)
    assert bucket.server.counted()["GET"] <= 2 + 2  # one for the fingerprint, and one for each 8 MiB


def test_readers_of_all_formats_read_objects(bucket: Bucket) -> None:
    table = pa.table({"id": range(1000), "note": [str(number) for number in range(1000)]}, SCHEMA)
    bucket.land("a.csv.gz", gzip.compress(b"id,note\n" + b"".join(b"%d,%d\n" % (n, n) for n in range(1000))))
    lines = b"".join(b'{"id": %d, "note": "%d"}\n' % (n, n) for n in range(1000))
    bucket.land("a.json", lines)
    bucket.land("a.json.gz", gzip.compress(lines))
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=100)
    bucket.land("a.parquet", sink.getvalue().to_pybytes())
    blocks: dict[str, Any] = {
        "a.csv.gz": read_csv(bucket.file("a.csv.gz"), SourceFormat("csv"), SCHEMA),
        "a.json": read_json(bucket.file("a.json"), SourceFormat("json"), SCHEMA),
        "a.json.gz": read_json(bucket.file("a.json.gz"), SourceFormat("json"), SCHEMA),
    }
    for name, parsers in blocks.items():
        notes = [value for parse in parsers for value in _notes(parse()).to_pylist()]
        assert notes == table["note"].to_pylist(), name
    parquet = read_parquet(bucket.file("a.parquet"), SCHEMA)
    assert [value for convert in parquet for value in convert().columns[0].to_pylist()] == list(range(1000))


def _notes(block: TextBlock | TypedBlock) -> pa.ChunkedArray:
    return block.texts[1] if isinstance(block, TextBlock) else block.columns[1]


def test_a_file_that_was_replaced_has_no_fingerprint_and_is_changed(bucket: Bucket) -> None:
    bucket.land("a", b"one")
    look, file = listed(bucket.landing())["a"], bucket.file("a")
    assert not file.is_changed()
    bucket.land("a", b"two")
    assert file.is_changed()
    assert bucket.landing().fingerprint(look) is None
    bucket.delete("a")
    assert is_changed(bucket.landing(), file.file)
    assert bucket.landing().fingerprint(look) is None


def test_an_object_that_is_replaced_while_it_is_read_is_never_mixed_with_its_successor(bucket: Bucket) -> None:
    bucket.land("a", b"1" * (9 << 20))
    with bucket.file("a").open() as file:
        assert file.read(10) == b"1" * 10
        bucket.land("a", b"2" * (9 << 20))
        with pytest.raises(LandingError, match="replaced or deleted while it was read"):
            file.read()


class ReplacingStore:
    """A store in which another program replaces the object just before a given request."""

    def __init__(self, store: Any, request: int, replacement: Callable[[], None]) -> None:
        self._store, self._left, self._replace = store, request, replacement

    def head(self, path: str) -> Any:
        self._ask()
        return self._store.head(path)

    def read_range(self, *arguments: Any) -> Any:
        self._ask()
        return self._store.read_range(*arguments)

    def _ask(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._replace()

    @property
    def has_replaced(self) -> bool:
        return self._left <= 0


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_a_task_reports_an_object_that_is_replaced_at_any_request(bucket: Bucket, kind: str, tmp_path: Path) -> None:
    contents = {"csv": b"id,note\n1,x\n", "json": b'{"id": 1, "note": "x"}\n', "parquet": _parquet(1)}
    others = {"csv": b"id,note\n2,x\n", "json": b'{"id": 2, "note": "x"}\n', "parquet": _parquet(2)}
    for request in range(1, 20):
        name = f"{request}.{kind}"
        bucket.land(name, contents[kind])
        file, landing = bucket.fingerprint(name), bucket.landing()
        store = ReplacingStore(landing.store, request, lambda: bucket.land(name, others[kind]))  # type: ignore[attr-defined]  # noqa: B023
        table, quarantine = LocalStore(str(tmp_path / "table")), LocalStore(str(tmp_path / "quarantine"))
        task = FileTask(
            replace(landing, store=store),  # type: ignore[type-var]
            (file,),
            "erp",
            0,
            Parser(SourceFormat(kind), SCHEMA, (), table.limits),
            plan_append(table, Schema.from_arrow(SCHEMA)).target,
            plan_append(quarantine, Schema.from_arrow(quarantine_schema(SCHEMA))).target,
            1,
            f"staged{request}",
        )
        result = run(task)
        assert bool(result.changed) == store.has_replaced, request
        if not store.has_replaced:
            assert (result.rows, request > 3) == (1, True)
            return
    pytest.fail("the task makes more requests than expected")


def test_an_object_that_may_not_be_read_is_refused_by_name(bucket: Bucket) -> None:
    bucket.land("a.csv")
    file = listed(bucket.landing())["a.csv"]

    def deny(request: Request, forward: Forward, _: Any) -> Answer:
        return Answer.error(403, "AccessDenied") if request.verb == "GET" else forward()

    with (
        bucket.server.interfering(deny),
        pytest.raises(SourceRefusedError, match=r"^\S+ a\.csv cannot be read: a\.csv: S3 answered AccessDenied"),
    ):
        bucket.landing().fingerprint(file)

    def fail(request: Request, forward: Forward, _: Any) -> Answer:
        return Answer.error(503, "ServiceUnavailable") if request.verb == "GET" else forward()

    impatient = open_landing(bucket.location, {**bucket.server.options, "retry_timeout": "0.1"})
    with bucket.server.interfering(fail), pytest.raises(StoreError, match="ServiceUnavailable"):
        impatient.fingerprint(file)


def test_listings_that_a_load_cannot_use_are_refused(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket.land("a.csv")
    bucket.land("b.csv")
    landing: Any = bucket.landing()
    walk = type(landing.store).walk
    with monkeypatch.context() as patch:
        patch.setattr(type(landing.store), "walk", lambda *args: iter([*walk(*args)][::-1]))
        with pytest.raises(LandingError, match="in another order"):
            listed(landing)
    with monkeypatch.context() as patch:
        patch.setattr(type(landing.store), "walk", lambda *args: (replace(meta, tag="") for meta in walk(*args)))
        with pytest.raises(LandingError, match=r"'a\.csv' of an object in .* has no ETag"):
            listed(landing)
    with monkeypatch.context() as patch:
        patch.setattr(type(landing.store), "walk", lambda *_: iter([ObjectMeta("a//b.csv", 1, 1, "x")]))
        with pytest.raises(LandingError, match=r"'a//b\.csv' of an object in .* is not a path"):
            listed(landing)


def _parquet(number: int) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [number], "note": ["x"]}, SCHEMA), sink)
    return bytes(sink.getvalue().to_pybytes())


def test_parts_of_an_object_are_read_in_ranges(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_AHEAD", 256 << 10)
    content = b"id,note\n" + b"".join(b"%d,%s\n" % (number, b"x" * (number % 900)) for number in range(10_000))
    bucket.land("a.csv", content)
    csv, size = SourceFormat("csv", quote=""), len(content)
    ids: list[int] = []
    for part in (FilePart(0, 0, size // 2, ("id", "note")), FilePart(1, size // 2, size, ("id", "note"))):
        bucket.server.requests.clear()
        for parse in read_csv(replace(bucket.file("a.csv"), part=part), csv, SCHEMA):
            block = parse()
            ids += map(int, block.texts[0].to_pylist())
        ranges = [request.headers["range"] for request in bucket.server.requests if request.verb == "GET"]
        assert sum(int(end) - int(start) + 1 for start, end in (each[6:].split("-") for each in ranges)) < size * 0.6
    assert ids == list(range(10_000))
