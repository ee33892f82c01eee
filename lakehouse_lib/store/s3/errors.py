"""Errors of boto3: which of them are retried, and their translation to errors of this library, with hints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import urllib3
from botocore import exceptions as botocore
from botocore.parsers import ResponseParserError

from lakehouse_lib.errors import ObjectNotFoundError, StoreError, StoreRefusedError
from lakehouse_lib.store.s3.hints import BY_STATUS, CREDENTIALS, HINTS, REGION
from lakehouse_lib.store.s3.options import S3Options

_TRANSIENT = {
    "BandwidthLimitExceeded",
    "ConditionalRequestConflict",
    "InternalError",
    "OperationAborted",
    "RequestLimitExceeded",
    "RequestTimeout",
    "ServiceUnavailable",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequests",
}
#: Hints for errors in the options, the environment or boto3's files, by the class of the error. Every request fails.
_SETTINGS: dict[type[Exception], str] = {
    botocore.PartialCredentialsError: f"The key id and the secret key belong together. {CREDENTIALS}",
    botocore.InvalidRegionError: f"{REGION}, such as eu-central-1; a profile may name one, too",
    botocore.ProfileNotFound: "Unset AWS_PROFILE, or set it to a profile in ~/.aws/config; boto3 looks for it even if "
    "keys are given",
    botocore.ConfigParseError: "Correct that file, or set AWS_CONFIG_FILE and AWS_SHARED_CREDENTIALS_FILE to others",
}

#: All errors that a call may raise.
FAILURES = (botocore.BotoCoreError, botocore.ClientError, ResponseParserError, urllib3.exceptions.HTTPError)


def code_of(error: BaseException) -> str:
    """The error code of S3's answer; "" if there was no answer."""
    return str(_answer(error).get("Code", "")) if isinstance(error, botocore.ClientError) else ""


def status_of(error: BaseException) -> int:
    """The HTTP status of the answer; 0 if there was no answer."""
    if not isinstance(error, botocore.ClientError):
        return 0
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def is_absent(error: BaseException) -> bool:
    """Whether the answer says that an object does not exist. For a HEAD request, the bucket may also be missing."""
    if code_of(error) in ("NoSuchKey", "NotFound"):
        return True
    return isinstance(error, botocore.ClientError) and error.operation_name == "HeadObject" and status_of(error) == 404


def is_transient(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    if isinstance(error, botocore.SSLError | botocore.ProxyConnectionError):
        return False
    if isinstance(error, botocore.HTTPClientError | botocore.ConnectionError | botocore.IncompleteReadError):
        return True
    if isinstance(error, botocore.ResponseStreamingError | urllib3.exceptions.HTTPError):
        return True  # the connection failed while a body was read
    status = status_of(error)
    return status == 429 or (status >= 500 and status != 501) or code_of(error) in _TRANSIENT


def leaves_doubt(error: Exception) -> bool:
    """Whether the server may have carried out the failed request: there was no answer, or a proxy may have answered."""
    return is_transient(error) or isinstance(error, botocore.SSLError)


def translate_error(
    error: Exception, what: str, table: str, options: S3Options, *, refused: bool = False, asked_once: bool = False
) -> StoreError:
    """The error of this library for an error of boto3.

    Args:
        what: the path or the action, for the message.
        table: the table's location, for the message.
        options: the options of the request; the message has none of their secrets.
        refused: the request was to store an object, and it is certain that nothing was stored.
        asked_once: the request was not retried, because the server had not answered an earlier request.
    """
    if is_absent(error):
        return ObjectNotFoundError(f"{what} is missing", table=table)
    attempts = (
        "tried once, because it did not answer before" if asked_once else f"tried for {options.retry_timeout:g} s"
    )
    message, hint = _message(error, options, attempts)
    kind = StoreRefusedError if refused else StoreError
    return kind(f"{what}: {without_secrets(message, options.secrets)}", table=table, hint=hint)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with ``***`` instead of each secret."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def _message(error: Exception, options: S3Options, attempts: str) -> tuple[str, str | None]:
    if isinstance(error, botocore.NoCredentialsError):
        return "no credentials for S3 were found", CREDENTIALS
    for kind, hint in _SETTINGS.items():
        if isinstance(error, kind):
            return str(error), hint
    if isinstance(error, botocore.CredentialRetrievalError | botocore.TokenRetrievalError):
        return f"the credentials could not be fetched: {error}", "Log in again, or give them as storage options"
    if isinstance(error, botocore.ClientError):
        return _answered(error, attempts)
    where = options.endpoint_url or "AWS"
    if isinstance(error, botocore.SSLError):
        return f"{where} has no TLS certificate that is trusted: {error}", "Check endpoint_url and the certificates"
    if is_transient(error):
        return (
            f"{where} does not answer ({type(error).__name__}), {attempts}",
            "Check endpoint_url, region and the network; retry_timeout limits the time of retries",
        )
    if isinstance(error, ResponseParserError):
        return f"{where} does not answer as an S3 server does", "Check endpoint_url"
    return str(error), "Check the storage options, the variables AWS_... and the files in ~/.aws"


def _answered(error: Any, attempts: str) -> tuple[str, str | None]:
    status, code = status_of(error), code_of(error)
    message = str(_answer(error).get("Message", ""))
    name = code if not code.isdigit() else BY_STATUS.get(status, code)
    answer = f"S3 answered {name}{f': {message}' if message and message != name else ''}"
    if is_transient(error):
        return f"{answer}, {attempts}", "Try again later; retry_timeout limits the time of retries"
    hint = HINTS.get(name) or HINTS.get(BY_STATUS.get(status, ""))
    region = _answer(error).get("Region") or _headers(error).get("x-amz-bucket-region")
    if hint == REGION and region:
        hint = f"The bucket is in {region}: set the storage option region (or AWS_REGION) to it"
    return answer, hint


def _answer(error: botocore.ClientError) -> dict[str, Any]:
    return dict(error.response.get("Error", {}))


def _headers(error: botocore.ClientError) -> dict[str, Any]:
    return dict(error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {}))
