"""S3 and compatible servers as an object store.

A commit is a conditional put (``If-None-Match: *``), which the server refuses if the object exists. A server that
ignores the condition would let two writers commit the same version, so the server is tested before the first commit.

A put that is retried may be refused because its first attempt was stored. Then the result is False, as for a lost race,
and the caller reads the log to decide. pyarrow's puts are unconditional, so pyarrow reads and writes only data files.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from lakehouse_lib.errors import ObjectNotFoundError, PathOutsideTableError, StoreError, StoreRefusedError
from lakehouse_lib.store.base import ObjectMeta, PathLimits, SparkAccess
from lakehouse_lib.store.s3 import requests
from lakehouse_lib.store.s3.client import S3Client
from lakehouse_lib.store.s3.conditional_puts import check_conditional_puts
from lakehouse_lib.store.s3.errors import is_transient
from lakehouse_lib.store.s3.hadoop import spark_access
from lakehouse_lib.store.s3.hints import hint_for_arrow
from lakehouse_lib.store.s3.options import SCHEMES, S3Options, location
from lakehouse_lib.threads import map_in_threads

if TYPE_CHECKING:
    import pyarrow as pa

#: The largest object of a single put, in bytes. A larger object needs a multipart upload, and not every server supports
#: a condition for its completion.
MOST_BYTES_A_PUT = 5 << 30

# Bytes of a key, and of a data file's name in it.
_MOST_BYTES_OF_KEY, _BYTES_OF_FILE = 1024, 128
_MOST_KEYS_A_DELETE = 1000
_DELETES_AT_ONCE = 8
_TRIES_OF_A_KEY = 5


class S3Store:
    """An object store whose objects are the keys of a bucket below a prefix.

    Args:
        bucket: the name of the bucket.
        prefix: the prefix of the table's keys, without slashes at its ends; "": the whole bucket.
        options: how the bucket is reached.
    """

    def __init__(self, bucket: str, prefix: str, options: S3Options) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._root = f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}"
        self._options = options
        self._client = S3Client(options, self._root)
        self._list_calls = 0

    @staticmethod
    def at(uri: str, storage_options: Mapping[str, str]) -> S3Store:
        """The store of ``s3://bucket/prefix`` (or ``s3a://``). No request is made.

        Args:
            storage_options: see ``S3Options``.

        Raises:
            InvalidArgumentError: the location or an option is not valid.
        """
        bucket, prefix = location(uri)
        options = S3Options.of(storage_options, f"s3://{bucket}/{prefix}")
        if options.single_writer:
            from lakehouse_lib.store.s3.single_writer import SingleWriterS3Store

            return SingleWriterS3Store(bucket, prefix, options)
        return S3Store(bucket, prefix, options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._root!r}, endpoint_url={self._options.endpoint_url!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, S3Store) and other._identity == self._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def root(self) -> str:
        return self._root

    @property
    def schemes(self) -> tuple[str, ...]:
        """The schemes of Hadoop's file systems for S3, which other writers may have put into the log."""
        return (*SCHEMES, "s3n")

    @property
    def limits(self) -> PathLimits:
        return PathLimits(_MOST_BYTES_OF_KEY, len(self._prefix.rstrip("/").encode()) + _BYTES_OF_FILE, noun="key")

    @property
    def is_remote(self) -> bool:
        return True

    @property
    def allowed_roots(self) -> tuple[str, ...]:
        return self._options.allowed_roots

    @property
    def list_calls(self) -> int:
        return self._list_calls

    def open_location(self, location: str) -> S3Store:
        bucket, _, prefix = location.removeprefix("s3://").partition("/")
        return type(self)(bucket, prefix, replace(self._options, allowed_roots=()))

    def read(self, path: str) -> bytes:
        place = self._readable_key(path)
        data: bytes = self._client.call(path, lambda client: client.get_object(**place)["Body"].read())
        return data

    def put(self, path: str, data: bytes) -> None:
        place = self._own_key(path)
        self._check_size(path, data)
        self._client.call(path, lambda client: client.put_object(**place, Body=data), storing=True)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        place = self._own_key(path)
        self._check_size(path, data)
        check_conditional_puts(self._client, self._bucket, self._prefix, table=self._root)
        return self._client.call(
            path, lambda client: requests.put_if(client, place, data, IfNoneMatch="*"), storing=True
        )

    def put_if_match(self, path: str, data: bytes, expected: bytes | None) -> bool:
        if expected is None:
            return self.put_if_absent(path, data)
        place = self._own_key(path)
        self._check_size(path, data)
        try:
            tag, current = self._client.call(path, lambda client: requests.get(client, place))
        except ObjectNotFoundError:
            return False
        if current != expected:
            return False
        return self._client.call(path, lambda client: requests.put_if(client, place, data, IfMatch=tag), storing=True)

    def list_from(self, folder: str, start: str = "") -> Iterator[ObjectMeta]:
        last = ""
        for meta in self._objects_in(folder, {"Delimiter": "/"}, _just_before(start)):
            name = meta.path.rpartition("/")[2]
            if name < last:
                raise StoreError(
                    f"the server lists {name!r} after {last!r}, so a listing from a given name may lack objects",
                    table=self._root,
                    hint="Use a server that lists keys in the order of their UTF-8 bytes, as S3 does",
                )
            last = name
            if name >= start:
                yield meta

    def folders(self, folder: str = "") -> list[str]:
        prefix = self._prefix_of(folder)
        names = {
            entry["Prefix"][len(prefix) : -1]
            for page in self._pages(folder, {"Delimiter": "/"})
            for entry in page.get("CommonPrefixes", ())
        }
        return sorted(name for name in names if name and not _leads_out(name))

    def walk(self, folder: str = "", after: str = "") -> Iterator[ObjectMeta]:
        prefix = f"{folder}/" if folder else ""
        if after.startswith(prefix):
            return self._objects_in(folder, {}, after.removeprefix(prefix))
        return self._objects_in(folder, {}) if after < prefix else iter(())

    def delete_many(self, paths: Iterable[str]) -> None:
        keys = (self._own_key(path)["Key"] for path in paths)
        batches = list(iter(lambda: list(islice(keys, _MOST_KEYS_A_DELETE)), []))
        for _ in map_in_threads(self._delete, batches, _DELETES_AT_ONCE):
            pass

    def head(self, path: str) -> ObjectMeta | None:
        place = self._readable_key(path)
        try:
            answer = self._client.call(path, lambda client: client.head_object(**place))
        except ObjectNotFoundError:
            return None
        modified = _milliseconds(answer["LastModified"])
        return ObjectMeta(path, int(answer["ContentLength"]), modified, answer.get("ETag", ""))

    def sync(self, paths: Iterable[str]) -> None:
        """Do nothing, because S3 answers a put only when the object is durable."""

    def read_range(self, path: str, start: int, length: int, tag: str) -> bytes | None:
        place = self._readable_key(path)
        try:
            # ``storing`` as for a put: an error that a retry does not fix becomes StoreRefusedError.
            return self._client.call(
                path, lambda client: requests.get_range(client, place, start, length, tag), storing=True
            )
        except ObjectNotFoundError:
            return None

    def open_input(self, path: str) -> pa.NativeFile:
        import pyarrow as pa

        place = self._readable_key(path)
        data, size = self._client.call(path, lambda client: requests.get_end(client, place))
        if len(data) == size:
            return pa.BufferReader(data)
        try:
            return self._client.filesystem().open_input_file(f"{place['Bucket']}/{place['Key']}")
        except OSError as error:
            raise self._store_error(path, error) from error

    def open_output(self, path: str) -> pa.NativeFile:
        place = self._own_key(path)
        try:
            return self._client.filesystem().open_output_stream(f"{place['Bucket']}/{place['Key']}")
        except OSError as error:
            raise self._store_error(path, error) from error

    def explain(self, error: OSError) -> str | None:
        return hint_for_arrow(str(error).partition("\n")[0])

    def spark_access(self, location: str) -> SparkAccess:
        return spark_access(location, self._options)

    def make_root(self) -> None:
        """Do nothing, because a bucket has no folders."""

    @property
    def _identity(self) -> tuple[str | None, str]:
        return self._options.endpoint_url, self._root

    def _own_key(self, path: str) -> dict[str, str]:
        """The bucket and key of an object of the table."""
        if _leads_out(path):
            raise PathOutsideTableError(f"the path {path!r} leaves the table's folder", table=self._root)
        return {"Bucket": self._bucket, "Key": self._prefix + path}

    def _readable_key(self, path: str) -> dict[str, str]:
        is_allowed = any(path.startswith(f"{root}/") for root in self.allowed_roots)
        if not is_allowed or ".." in path.split("/"):
            return self._own_key(path)
        bucket, _, key = path.removeprefix("s3://").partition("/")
        return {"Bucket": bucket, "Key": key}

    def _objects_in(self, folder: str, more: dict[str, str], after: str = "") -> Iterator[ObjectMeta]:
        if after:
            more = {**more, "StartAfter": self._prefix_of(folder) + after}
        for page in self._pages(folder, more):
            for entry in page.get("Contents", ()):
                key = entry["Key"]
                if not key.endswith("/"):  # some programs put an object with such a key for a folder
                    size, modified = int(entry["Size"]), _milliseconds(entry["LastModified"])
                    yield ObjectMeta(self._path_of(key), size, modified, entry.get("ETag", ""))

    def _prefix_of(self, folder: str) -> str:
        return f"{self._own_key(folder)['Key']}/" if folder else self._prefix

    def _pages(self, folder: str, more: dict[str, str]) -> Iterator[Mapping[str, Any]]:
        prefix = self._prefix_of(folder)
        what = f"the listing of {folder or 'the table'}"
        while True:
            self._list_calls += 1
            page = self._client.call(what, partial(requests.list_page, Bucket=self._bucket, Prefix=prefix, **more))
            yield page
            if not page.get("IsTruncated"):
                return
            token = page.get("NextContinuationToken")
            if not token or token == more.get("ContinuationToken"):
                raise StoreError(
                    f"{what} cannot be continued: the server says that there is more, without a new ContinuationToken",
                    table=self._root,
                    hint="Use a server whose listings have ContinuationTokens, as those of S3",
                )
            more = {**more, "ContinuationToken": token}

    def _path_of(self, key: str) -> str:
        """The path of a listed key.

        A key such as "t//x" or "t/../x" is not a valid path. Its path is its location, which all methods refuse.
        """
        path = key.removeprefix(self._prefix)
        return f"s3://{self._bucket}/{key}" if _leads_out(path) else path

    def _delete(self, keys: list[str]) -> None:
        for tries in range(_TRIES_OF_A_KEY):
            what = f"the deletion of {len(keys)} objects"
            failures = self._client.call(what, partial(requests.delete, bucket=self._bucket, keys=keys))
            if not failures:
                return
            permanent_failures = [failure for failure in failures if not is_transient(_as_error(failure))]
            if permanent_failures or tries == _TRIES_OF_A_KEY - 1:
                first = (permanent_failures or failures)[0]
                raise StoreError(
                    f"{len(failures)} of {len(keys)} objects were not deleted, among them "
                    f"{str(first.get('Key')).removeprefix(self._prefix)}: S3 answered {first.get('Code')}",
                    table=self._root,
                    hint="Let these credentials delete objects below the table, and try again",
                )
            keys = [str(failure["Key"]) for failure in failures]
            time.sleep(random.uniform(0.1, 0.2) * 2**tries)  # noqa: S311

    def _check_size(self, path: str, data: bytes) -> None:
        if len(data) > MOST_BYTES_A_PUT:
            raise StoreRefusedError(
                f"{path} has {len(data)} bytes; expected at most {MOST_BYTES_A_PUT}",
                table=self._root,
                hint="Commit fewer files at once",
            )

    def _store_error(self, path: str, error: OSError) -> StoreError:
        text = str(error).partition("\n")[0]
        return StoreError(f"{path}: {text}", table=self._root, hint=self.explain(error))


def _leads_out(path: str) -> bool:
    return path.startswith(("/", "s3://")) or ".." in path.split("/")


def _just_before(start: str) -> str:
    """A text shortly before ``start`` in sort order. S3 lists the keys after this text (``StartAfter``)."""
    if not start:
        return ""
    before = chr(ord(start[-1]) - 1)
    return f"{start[:-1]}{before}~" if before.isalnum() and before.isascii() else start[:-1]


def _milliseconds(moment: Any) -> int:
    # Some servers have fractions of a second in listings but not for a single object.
    return int(moment.timestamp()) * 1000


def _as_error(failure: Mapping[str, Any]) -> ClientError:
    return ClientError({"Error": dict(failure)}, "DeleteObjects")
