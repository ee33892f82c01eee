"""The S3 store. It uses boto3, which is imported when a table in S3 is opened."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.store.base import ObjectStore
from lakehouse_lib.store.s3.options import CREDENTIALS, SCHEMES, option_of
from lakehouse_lib.store.schemes import StoreKind, register


def open_s3(uri: str, options: Mapping[str, str]) -> ObjectStore:
    """The store of ``s3://bucket/folder``. No request is made.

    Raises:
        InvalidArgumentError: boto3 is not installed; the location or an option is not valid.
    """
    if importlib.util.find_spec("boto3") is None:
        raise InvalidArgumentError(
            f"{uri.partition(':')[0]}: locations need boto3, and it is not installed",
            hint="Install it: pip install boto3",
            code="DELTA_MISSING_PACKAGE",
        )
    from lakehouse_lib.store.s3.s3_store import S3Store

    return S3Store.at(uri, options)


register(StoreKind(SCHEMES, open_s3, option_of, CREDENTIALS))
