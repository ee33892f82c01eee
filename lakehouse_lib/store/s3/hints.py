"""Hints for error answers of S3, from boto3 or pyarrow."""

from __future__ import annotations

import re

CREDENTIALS = (
    "Give access_key_id and secret_access_key (and session_token with temporary ones) as storage options, or set "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
REGION = "Set the storage option region (or AWS_REGION) to the bucket's region"
#: Hints by S3's error code.
HINTS = {
    "404": "Check endpoint_url: it is not the address of an S3 server",
    "AccessDenied": "Let these credentials list, read, write and delete objects below the table, or use other "
    "credentials",
    "AllAccessDisabled": "Ask the bucket's owner",
    "AuthorizationHeaderMalformed": REGION,
    "EntityTooLarge": "The server does not accept objects of this size: commit fewer files at once, and write smaller "
    "ones (delta.targetFileSize, target_file_size)",
    "ExpiredToken": "The credentials have expired; get new ones",
    "IllegalLocationConstraintException": REGION,
    "InvalidAccessKeyId": f"The server does not know the access key. {CREDENTIALS}",
    "InvalidObjectState": "The object is archived; restore it first",
    "InvalidToken": f"The session token does not belong to these keys. {CREDENTIALS}",
    "NoSuchBucket": "Create the bucket, or correct the location or the endpoint",
    "PermanentRedirect": REGION,
    "QuotaExceeded": "Make room in the bucket",
    "RequestTimeTooSkewed": "Set this machine's clock",
    "SignatureDoesNotMatch": f"The secret key does not belong to the access key. {CREDENTIALS}",
    "TokenRefreshRequired": "The credentials have expired; get new ones",
}
#: The error code for the HTTP status of an answer that has no code.
BY_STATUS = {301: "PermanentRedirect", 403: "AccessDenied", 307: "PermanentRedirect", 413: "EntityTooLarge"}
_ARROW_HINTS = {re.sub("[^a-z]", "", name.lower()): hint for name, hint in HINTS.items()}
_SLOW = "The server asks for fewer requests: try again later, or with fewer tasks at a time"


def hint_for_arrow(text: str) -> str | None:
    """A hint for an error of pyarrow, by its text; None if it is not a known error of S3.

    The text has ``AWS Error ACCESS_DENIED`` for an error that pyarrow knows, and the server's code for any other error.
    """
    match = re.search(r"ExceptionName: (\w+)", text) or re.search(r"AWS Error (\w+)", text)
    if match is None:
        return None
    key = match[1].replace("_", "").lower()
    if key in ("slowdown", "throttling", "serviceunavailable", "requestlimitexceeded"):
        return _SLOW
    status = re.search(r"HTTP status (\d+)", text)
    return _ARROW_HINTS.get(key) or HINTS.get(BY_STATUS.get(int(status[1]), "") if status else "")
