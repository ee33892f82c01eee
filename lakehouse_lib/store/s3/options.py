"""Options of access to a bucket. They are storage options, with the names of ``deltalake``, and environment variables.

A storage option has precedence over an environment variable. Names of options are case-insensitive, and the prefix
``AWS_`` is optional. Credentials in the environment are not copied into the options, because boto3 finds them itself,
like the other credentials of its chain (profiles, web identities, instance roles).
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store.uris import location_text, parse, split_or_none

#: Schemes of locations that are accepted; this library writes the first scheme.
SCHEMES = ("s3", "s3a")
#: Options with credentials.
CREDENTIALS = frozenset({"access_key_id", "secret_access_key", "session_token"})
#: Every name of an option, without the prefix ``aws_``.
_NAMES = {
    "access_key_id": "access_key_id",
    "secret_access_key": "secret_access_key",
    "session_token": "session_token",
    "token": "session_token",
    "region": "region",
    "default_region": "region",
    "endpoint_url": "endpoint_url",
    "endpoint": "endpoint_url",
    "allow_http": "allow_http",
    "virtual_hosted_style_request": "virtual_hosted_style",
    "skip_signature": "skip_signature",
    "conditional_put": "conditional_put",
    "connect_timeout": "connect_timeout",
    "timeout": "timeout",
    "retry_timeout": "retry_timeout",
    "single_writer": "single_writer",
    "allowed_roots": "allowed_roots",
}
#: Environment variables for options that are not given; the first variable that is set is used.
_ENVIRONMENT = {
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "endpoint_url": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "allow_http": ("AWS_ALLOW_HTTP",),
    "virtual_hosted_style": ("AWS_VIRTUAL_HOSTED_STYLE_REQUEST",),
    "skip_signature": ("AWS_SKIP_SIGNATURE",),
}
#: Options of other libraries that make their writers unsafe together with writers of this library.
_UNSAFE = ("allow_unsafe_rename", "locking_provider")
_TRUE, _FALSE = ("1", "true", "on", "yes", "y"), ("0", "false", "off", "no", "n")
_SECONDS = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}
_REGION = re.compile(r"(?!-|\d+$)[A-Za-z0-9-]{1,63}(?<!-)")
_KEY = re.compile(r"[!-~]*")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,253}[A-Za-z0-9]")


@dataclass(frozen=True)
class S3Options:
    """Options of access to a bucket. Times are in seconds. Secrets are pickled, but ``repr`` leaves them out.

    Attributes:
        access_key_id, secret_access_key, session_token: the credentials; None: boto3 finds them by its chain.
        region: None: boto3's configuration, or us-east-1.
        endpoint_url: the address of the server; None: AWS.
        virtual_hosted_style: True: the bucket is part of the host name. False: with ``endpoint_url`` it is part of the
            path; for AWS, boto3 chooses.
        skip_signature: make anonymous requests, to a public bucket.
        connect_timeout: how long one attempt may take to connect.
        timeout: how long the answer to one attempt may take (``deadline``).
        retry_timeout: after this time a request is not retried.
        single_writer: the user guarantees that no other process writes to the table. A server without conditional puts
            needs this guarantee.
        allowed_roots: other locations whose files the table may refer to; they are only read.
    """

    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str | None = None
    endpoint_url: str | None = None
    virtual_hosted_style: bool = False
    skip_signature: bool = False
    connect_timeout: float = 5.0
    timeout: float = 20.0
    retry_timeout: float = 30.0
    single_writer: bool = False
    allowed_roots: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, storage_options: Mapping[str, str], table: str, environment: Mapping[str, str] | None = None
    ) -> S3Options:
        """The options from storage options and environment variables, parsed and checked.

        Args:
            storage_options: the storage options of the user.
            table: the table's location, for errors.
            environment: the environment variables; None: those of this process.

        Raises:
            InvalidArgumentError: an option is unknown, a value is not valid, or credentials are incomplete. Values are
                shown only for options without secrets.
        """
        return _Reader(storage_options, table, os.environ if environment is None else environment).options()

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that no message may show."""
        return tuple(secret for secret in (self.secret_access_key, self.session_token) if secret)


class _Reader:
    def __init__(self, storage_options: Mapping[str, str], table: str, environment: Mapping[str, str]) -> None:
        self._table = table
        self._texts: dict[str, str] = {}
        self._named: dict[str, str] = {}  # the name that the user or the environment used, for errors
        for name, value in storage_options.items():
            self._take(name, value)
        has_keys = "access_key_id" in self._texts
        for name, variables in _ENVIRONMENT.items():
            if has_keys and name == "skip_signature":
                continue  # AWS_SKIP_SIGNATURE may be meant for another, public bucket
            variable = next((candidate for candidate in variables if environment.get(candidate)), None)
            if name not in self._texts and variable is not None:
                self._texts[name], self._named[name] = environment[variable], variable

    def options(self) -> S3Options:
        endpoint = self._endpoint(may_be_plain=self._flag("allow_http"))
        if self._texts.get("conditional_put", "etag").lower() != "etag":
            raise self._bad("conditional_put", "Only etag is supported; leave the option out")
        key, secret, token = (
            self._texts.get(option) for option in ("access_key_id", "secret_access_key", "session_token")
        )
        if (key is None) != (secret is None) or (token is not None and key is None):
            missing = "secret_access_key" if secret is None and key is not None else "access_key_id"
            raise InvalidArgumentError(
                f"the storage options have credentials without {missing}",
                table=self._table,
                hint="Give access_key_id and secret_access_key together (session_token with temporary ones), or none "
                "of them: then boto3 looks in the environment and in its profiles",
                code="DELTA_INVALID_STORAGE_OPTION",
            )
        if key is not None and self._flag("skip_signature"):
            raise self._bad("skip_signature", "Leave out this option or the keys: unsigned requests do not use keys")
        for name in ("access_key_id", "secret_access_key", "session_token"):
            check_key(self._texts.get(name), f"the storage option {self._named.get(name)}", self._table)
        return S3Options(
            key,
            secret,
            token,
            self._region(),
            endpoint,
            self._flag("virtual_hosted_style"),
            self._flag("skip_signature"),
            self._seconds("connect_timeout", S3Options.connect_timeout),
            self._seconds("timeout", S3Options.timeout),
            self._seconds("retry_timeout", S3Options.retry_timeout),
            self._flag("single_writer"),
            self._roots(),
        )

    def _take(self, name: str, value: str) -> None:
        key = option_of(name) if isinstance(name, str) else None
        if key is None:
            unsafe = isinstance(name, str) and any(word in name.lower() for word in _UNSAFE)
            raise InvalidArgumentError(
                f"the storage option {name!r} is unknown",
                table=self._table,
                hint="This library commits by conditional puts, which writers with that option ignore. Leave it out, "
                "and let none of them write to the table"
                if unsafe
                else f"The options are {', '.join(sorted(_NAMES))}, each also with the prefix aws_",
                code="DELTA_INVALID_STORAGE_OPTION",
            )
        if not isinstance(value, str):
            raise InvalidArgumentError(
                f"the storage option {name!r} is of type {type(value).__name__}; expected text",
                table=self._table,
                hint="Give text: 'true', '20'",
                code="DELTA_INVALID_STORAGE_OPTION",
            )
        if self._texts.get(key, value) != value:
            raise InvalidArgumentError(
                f"the storage options {self._named[key]!r} and {name!r} contradict each other",
                table=self._table,
                hint="They are two names of one option; give only one of them",
                code="DELTA_INVALID_STORAGE_OPTION",
            )
        self._texts[key], self._named[key] = value, name

    def _endpoint(self, *, may_be_plain: bool) -> str | None:
        text = self._texts.get("endpoint_url")
        if not text:
            return None
        parts = split_or_none(text if "://" in text else f"https://{text}")
        name = self._named["endpoint_url"]
        if "@" in text:  # a secret may have slashes in it and look like a path
            raise InvalidArgumentError(
                f"{name} has credentials in it",
                table=self._table,
                hint="Give them as access_key_id and secret_access_key",
                code="DELTA_INVALID_STORAGE_OPTION",
            )
        if parts is None or not _is_endpoint(parts):
            raise InvalidArgumentError(
                f"{name} is {location_text(text)}; expected an address of a server",
                table=self._table,
                hint="Write it as https://host or https://host:port",
                code="DELTA_INVALID_STORAGE_OPTION",
            )
        if parts.scheme == "http" and not may_be_plain:
            raise InvalidArgumentError(
                f"{name} is {text!r}; expected https, because http is not encrypted",
                table=self._table,
                hint="Use https, or set allow_http=true if you trust the network",
                code="DELTA_INVALID_STORAGE_OPTION",
            )
        return parts.geturl().rstrip("/")

    def _region(self) -> str | None:
        text = self._texts.get("region")
        if text and not _REGION.fullmatch(text):
            raise self._bad("region", "Write the name of the bucket's region, such as eu-central-1")
        return text or None

    def _flag(self, name: str) -> bool:
        text = self._texts.get(name, "false").strip().lower()
        if text not in (*_TRUE, *_FALSE):
            raise self._bad(name, "Write true or false")
        return text in _TRUE

    def _seconds(self, name: str, default: float) -> float:
        if name not in self._texts:
            return default
        match = _SECONDS.fullmatch(self._texts[name].strip().lower())
        seconds = float(match[1]) * _UNITS[match[2] or "s"] if match else 0.0
        if not 0 < seconds < 86_400:
            raise self._bad(name, "Write seconds, such as 20 or 500ms")
        return seconds

    def _roots(self) -> tuple[str, ...]:
        roots = []
        for uri in self._texts.get("allowed_roots", "").split():
            bucket, prefix = location(uri, self._table)
            roots.append(f"s3://{bucket}/{prefix}" if prefix else f"s3://{bucket}")
        return tuple(roots)

    def _bad(self, name: str, hint: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"{self._named[name]} is {self._texts[name]!r}, which is not a valid value",
            table=self._table,
            hint=hint,
            code="DELTA_INVALID_STORAGE_OPTION",
        )


def option_of(name: str) -> str | None:
    """The option for a name that a user gave: a field of ``S3Options``, ``allow_http`` or ``conditional_put``.

    None if the name is unknown.
    """
    return _NAMES.get(name.lower().removeprefix("aws_"))


def check_key(text: str | None, name: str, table: str) -> None:
    """Check that a key or token can be sent in a header. A line break from a file would cause a misleading error.

    Raises:
        InvalidArgumentError: the text has characters that keys do not have. The message does not show the text.
    """
    if text is not None and not _KEY.fullmatch(text):
        raise InvalidArgumentError(
            f"{name} has a line break, a space or another character that keys do not have",
            table=table,
            hint="Give it as it was issued; text from a file may end in a line break",
            code="DELTA_INVALID_STORAGE_OPTION",
        )


def _is_endpoint(parts: SplitResult) -> bool:
    try:
        has_host = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:  # the port is not a number
        return False
    return has_host and parts.scheme in ("http", "https") and not parts.query and not parts.fragment


def location(uri: str, table: str | None = None) -> tuple[str, str]:
    """The bucket and the prefix (possibly empty, without slashes at its ends) of ``s3://bucket/prefix`` or ``s3a://``.

    Percent-encoding is decoded, once.

    Args:
        table: the table's location, for errors; None if ``uri`` is the table's location.

    Raises:
        InvalidArgumentError: the location is not valid. A location that may hold credentials is not shown.
    """
    scheme, bucket, path = parse(uri, table)
    if scheme not in SCHEMES or not _BUCKET.fullmatch(bucket):
        raise InvalidArgumentError(
            f"{location_text(uri)} is not a valid location in a bucket",
            table=table,
            hint="Write s3://bucket/folder; endpoint and credentials are storage options",
            code="DELTA_INVALID_TABLE_LOCATION",
        )
    if bucket.endswith("--x-s3"):
        raise InvalidArgumentError(
            f"{location_text(uri)} is in a directory bucket, whose listings are not sorted",
            table=table,
            hint="Put the table into a general purpose bucket",
            code="DELTA_INVALID_TABLE_LOCATION",
        )
    prefix = path.strip("/")
    if prefix and any(step in ("", ".", "..") for step in prefix.split("/")):
        raise InvalidArgumentError(
            f"{location_text(uri)} has empty steps, '.' or '..' in its path",
            table=table,
            hint="Write the folder's plain name",
            code="DELTA_INVALID_TABLE_LOCATION",
        )
    return bucket, prefix
