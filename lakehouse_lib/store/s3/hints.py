"""What to do about an answer of S3, be it boto3 or pyarrow that was answered."""

from __future__ import annotations

import re

CREDENTIALS = (
    "Give access_key_id and secret_access_key (and session_token with temporary ones) as storage options, or set "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
REGION = "Set the storage option region (or AWS_REGION) to the bucket's own"
#: By S3's name of what happened.
HINTS = {
    "404": "Check endpoint_url: it does not answer as an S3 server does",
    "AccessDenied": "Let these credentials list, read, write and delete objects below the table, or use others",
    "AllAccessDisabled": "Ask the bucket's owner",
    "AuthorizationHeaderMalformed": REGION,
    "EntityTooLarge": "The server takes no object as large: commit fewer files at once, and write smaller ones "
    "(delta.targetFileSize, target_file_size)",
    "ExpiredToken": "The credentials have run out; get new ones",
    "IllegalLocationConstraintException": REGION,
    "InvalidAccessKeyId": f"The server does not know the access key. {CREDENTIALS}",
    "InvalidObjectState": "The object is archived; restore it first",
    "InvalidToken": f"The session token is not of these keys. {CREDENTIALS}",
    "NoSuchBucket": "Create the bucket, or mend the location or the endpoint",
    "PermanentRedirect": REGION,
    "QuotaExceeded": "Make room in the bucket",
    "RequestTimeTooSkewed": "Set this machine's clock",
    "SignatureDoesNotMatch": f"The secret key does not belong to the access key. {CREDENTIALS}",
    "TokenRefreshRequired": "The credentials have run out; get new ones",
}
#: Where the answer has no name.
BY_STATUS = {301: "PermanentRedirect", 403: "AccessDenied", 307: "PermanentRedirect", 413: "EntityTooLarge"}
_OF_ARROW = {re.sub("[^a-z]", "", name.lower()): hint for name, hint in HINTS.items()}
_SLOW = "The server asks for fewer requests: try again later, or with fewer tasks at a time"


def hint_for_arrow(text: str) -> str | None:
    """What to do about an error of pyarrow's, by its text; None where that is no answer of S3 that we know.

    It names what it knows as in ``AWS Error ACCESS_DENIED``, and quotes the server's own name of what it does not.
    """
    if "AWS Error" not in text:
        return None
    named = re.search(r"ExceptionName: (\w+)", text) or re.search(r"AWS Error (\w+)", text)
    assert named is not None
    key = named[1].replace("_", "").lower()
    if key in ("slowdown", "throttling", "serviceunavailable", "requestlimitexceeded"):
        return _SLOW
    status = re.search(r"HTTP status (\d+)", text)
    return _OF_ARROW.get(key) or HINTS.get(BY_STATUS.get(int(status[1]), "") if status else "")
