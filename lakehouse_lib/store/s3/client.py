"""Requests to one bucket, with retries until a deadline. A process has one boto3 client for each set of options."""

from __future__ import annotations

import math
import os
import random
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import boto3
import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.configprovider import ConfiguredEndpointProvider
from botocore.credentials import Credentials
from botocore.utils import get_environ_proxies

from lakehouse_lib.errors import DeltaError, InvalidArgumentError
from lakehouse_lib.store.s3 import answers
from lakehouse_lib.store.s3.deadline import limit_answers
from lakehouse_lib.store.s3.errors import (
    FAILURES,
    is_transient,
    leaves_doubt,
    status_of,
    translate_error,
    without_secrets,
)
from lakehouse_lib.store.s3.options import S3Options, check_key
from lakehouse_lib.threads import ProcessLock

if TYPE_CHECKING:
    import pyarrow.fs

T = TypeVar("T")

_FIRST_WAIT_SECONDS = 0.1
_LONGEST_WAIT_SECONDS = 5.0
_SILENT_SECONDS = 30.0
_CONNECTIONS = 32
_DEFAULT_REGION = "us-east-1"

#: A process keeps at most this number of connections, one for each set of options. Options with new temporary
#: credentials are another set.
_MOST_KEPT = 16


@dataclass
class _Connection:
    """The objects that are made once for a set of options.

    Attributes:
        core: botocore's session, which has the configuration files, profiles and environment variables.
        files: the credentials with which pyarrow's file system was made, and the file system.
        silent_since: the time of the last request without an answer, by the monotonic clock; -inf: there was none since
            the last request that succeeded.
    """

    core: Any = None
    session: Any = None
    client: Any = None
    files: tuple[Any, Any] | None = None
    silent_since: float = -math.inf


# By process id, because a forked child must not share its parent's connections. The last used connection is at the end.
_connections: dict[int, OrderedDict[S3Options, _Connection]] = {}
_lock = ProcessLock()


class S3Client:
    """A client for requests of one table. It can be pickled, because it connects in the process that uses it.

    Args:
        options: how the bucket is reached.
        root: the table's location, for errors.
    """

    def __init__(self, options: S3Options, root: str) -> None:
        self.options = options
        self._root = root

    def call(self, what: str, attempt: Callable[[Any], T], *, storing: bool = False) -> T:
        """The result of ``attempt`` with a boto3 client. Throttling, server errors and missing answers are retried.

        If a request got no answer until its deadline, the next requests are tried only once each. Retries start again
        after a request that succeeds, or 30 seconds after the last request without an answer.

        Args:
            what: the path or the action, for errors.
            attempt: usually one request. Its boto3 errors are turned into errors of this library.
            storing: raise ``StoreRefusedError`` if the request has failed and has certainly stored nothing.

        Raises:
            StoreError, ObjectNotFoundError: the answer was an error, or there was no answer.
            InvalidArgumentError: boto3 has found a key that cannot be sent, or an endpoint that the options lack.
        """
        connection, started = self._connection(), time.monotonic()
        with self._explained(what, storing=storing):
            client = connection.client or self._make_client(connection)
        is_silent = started - connection.silent_since < _SILENT_SECONDS
        deadline = started if is_silent else started + self.options.retry_timeout
        longest_wait = _FIRST_WAIT_SECONDS
        in_doubt = False
        while True:
            try:
                result = attempt(client)
            except FAILURES as error:
                may_succeed_later = is_transient(error)
                in_doubt |= leaves_doubt(error)
                wait = random.uniform(longest_wait / 2, longest_wait)  # noqa: S311
                if may_succeed_later and time.monotonic() + wait <= deadline:
                    time.sleep(wait)
                    longest_wait = min(2 * longest_wait, _LONGEST_WAIT_SECONDS)
                    continue
                if may_succeed_later and not status_of(error):
                    connection.silent_since = time.monotonic()
                shown = str(error) == without_secrets(str(error), self.options.secrets)
                refused = storing and not in_doubt
                explanation = translate_error(
                    error, what, self._root, self.options, refused=refused, asked_once=is_silent
                )
                raise explanation from (error if shown else None)
            connection.silent_since = -math.inf
            return result

    def filesystem(self) -> pyarrow.fs.S3FileSystem:
        """pyarrow's file system for the same bucket, options and credentials. It has no conditional put."""
        from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

        with self._explained("the connection"), _lock:
            connection = self._connection()
            client, session = connection.client or self._make_client(connection), self._session(connection)
            credentials = None if self.options.skip_signature else session.get_credentials()
            frozen = credentials.get_frozen_credentials() if credentials is not None else None
            if connection.files is None or connection.files[0] != frozen:
                parts = urlsplit(self.options.endpoint_url) if self.options.endpoint_url else None
                scheme = parts.scheme if parts else "https"
                files = S3FileSystem(
                    access_key=frozen.access_key if frozen else None,
                    secret_key=frozen.secret_key if frozen else None,
                    session_token=frozen.token if frozen else None,
                    anonymous=self.options.skip_signature,
                    region=client.meta.region_name,
                    scheme=scheme,
                    endpoint_override=f"{parts.netloc}{parts.path}" if parts else None,
                    force_virtual_addressing=self.options.virtual_hosted_style,
                    connect_timeout=self.options.connect_timeout,
                    request_timeout=self.options.timeout,
                    retry_strategy=AwsStandardS3RetryStrategy(max_attempts=5),
                    # The settings that boto3 reads itself, so that commits and data files use the same ones.
                    tls_ca_file_path=connection.core.get_config_variable("ca_bundle")
                    or os.environ.get("REQUESTS_CA_BUNDLE"),
                    proxy_options=get_environ_proxies(client.meta.endpoint_url).get(scheme),
                    allow_delayed_open=True,  # so that a small file takes one request
                )
                connection.files = (frozen, files)
            return connection.files[1]

    @contextmanager
    def _explained(self, what: str, *, storing: bool = False) -> Iterator[None]:
        """Translate the errors that boto3 raises before it connects (options, environment, files)."""
        try:
            yield
        except (*FAILURES, ValueError) as error:
            if isinstance(error, DeltaError):
                raise
            # Without the cause, which may quote a line of a credentials file.
            raise translate_error(error, what, self._root, self.options, refused=storing) from None

    def _connection(self) -> _Connection:
        with _lock:
            connections = _connections.setdefault(os.getpid(), OrderedDict())
            connection = connections.setdefault(self.options, _Connection())
            connections.move_to_end(self.options)
            while len(connections) > _MOST_KEPT:
                _, unused = connections.popitem(last=False)
                if unused.client is not None:
                    unused.client.close()  # requests under way are completed
            return connection

    def _session(self, connection: _Connection) -> Any:
        with _lock:
            if connection.session is None:
                connection.core = botocore.session.get_session()
                connection.session = boto3.Session(
                    botocore_session=connection.core,
                    aws_access_key_id=self.options.access_key_id,
                    aws_secret_access_key=self.options.secret_access_key,
                    aws_session_token=self.options.session_token,
                    region_name=self.options.region,
                )
            return connection.session

    def _make_client(self, connection: _Connection) -> Any:
        options, has_endpoint = self.options, self.options.endpoint_url is not None
        if options.virtual_hosted_style:
            style = "virtual"
        else:
            style = "path" if has_endpoint else "auto"
        config = Config(
            connect_timeout=options.connect_timeout,
            read_timeout=options.timeout,
            # Retries are made in ``call``, which has the deadline.
            retries={"total_max_attempts": 1, "mode": "standard"},
            max_pool_connections=_CONNECTIONS,
            s3={"addressing_style": style},
            ignore_configured_endpoint_urls=True,
            # Many servers other than AWS support only the checksum in the signature.
            request_checksum_calculation="when_required" if has_endpoint else "when_supported",
            response_checksum_validation="when_required" if has_endpoint else "when_supported",
            **({"signature_version": UNSIGNED} if options.skip_signature else {}),
        )
        with _lock:  # boto3 cannot make clients in several threads at once
            if connection.client is not None:
                return connection.client
            session = self._session(connection)
            if not has_endpoint:
                self._check_profile(connection.core)
            client = session.client(
                "s3",
                region_name=session.region_name or _DEFAULT_REGION,
                endpoint_url=options.endpoint_url,
                config=config,
            )
            limit_answers(client)
            answers.register(client)
            credentials = None if options.skip_signature else session.get_credentials()
            # Other kinds of credentials are fetched when a request needs them.
            if credentials is not None and type(credentials) is Credentials:
                for text in (credentials.access_key, credentials.secret_key, credentials.token):
                    check_key(text, f"a key or token that boto3 found ({credentials.method})", self._root)
            # A client without credentials never gets any, even if the environment has them later; it is not kept.
            if options.skip_signature or credentials is not None:
                connection.client = client
            return client

    def _check_profile(self, core: Any) -> None:
        """Refuse an endpoint in boto3's configuration files.

        pyarrow and Spark ignore it: they would send data files to a bucket of the same name at AWS, signed with the
        keys of the other server.
        """
        if core.get_config_variable("ignore_configured_endpoint_urls"):
            return
        files = {"full_config": core.full_config, "scoped_config": core.get_scoped_config()}
        if ConfiguredEndpointProvider(**files, client_name="s3", environ={}).provide():
            raise InvalidArgumentError(
                "the boto3 profile has an endpoint_url, but the storage options have none",
                table=self._root,
                hint="Give the same address as the storage option endpoint_url (with allow_http=true for http), or set "
                "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true if AWS is meant",
                code="DELTA_INVALID_STORAGE_OPTION",
            )
