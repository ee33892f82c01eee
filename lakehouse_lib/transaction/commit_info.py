"""The commitInfo action: the operation of a commit, its parameters and metrics, and fields of the caller (PROTOCOL.md,
section Commit Provenance Information)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from lakehouse_lib import distribution
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.json_text import excerpt
from lakehouse_lib.protocol.table_properties import IsolationLevel

#: Fields of commitInfo that readers interpret and that this library sets itself in some commits.
_RESERVED_FIELDS = frozenset(("inCommitTimestamp", "readVersion", "version"))
#: Fields of commitInfo that callers may set, and their types. If a value has another type, other engines cannot read
#: the table.
_FIELDS = {
    "clusterId": "text",
    "job": "a dictionary",
    "lastManifestCommit": "a dictionary",
    "notebook": "a dictionary",
    "tags": "a dictionary of text",
    "userId": "text",
    "userMetadata": "text",
    "userName": "text",
}

_METADATA: ContextVar[Mapping[str, Any]] = ContextVar("commit_metadata", default=MappingProxyType({}))


@contextmanager
def commit_metadata(fields: Mapping[str, Any]) -> Iterator[None]:
    """Add fields to the commitInfo of every commit that this thread makes in the block, such as the user's name.

    The custom metadata of a commit has precedence. An inner block adds its fields to those of the outer block.

    Args:
        fields: as ``custom_metadata`` of ``CommitProperties``.

    Raises:
        InvalidArgumentError: the fields are not valid.
    """
    check_custom_metadata(fields)
    before = _METADATA.set({**_METADATA.get(), **fields})
    try:
        yield
    finally:
        _METADATA.reset(before)


def commit_info(
    custom_metadata: Mapping[str, Any],
    *,
    tags: Mapping[str, str],
    operation: str,
    parameters: Mapping[str, Any],
    metrics: Mapping[str, Any],
    isolation: IsolationLevel,
    is_blind_append: bool,
    read_version: int | None,
    txn_id: str,
    timestamp: int,
) -> dict[str, Any]:
    """The commitInfo of a commit. Parameters and metrics become text, as delta-spark reads them; None stays null.

    Args:
        custom_metadata: more fields, in addition to those of ``commit_metadata``. They do not replace fields that this
            function sets.
        tags: more tags, in addition to the tags in the fields of the caller.
        read_version: None for the first commit of a table.
        timestamp: ms since the epoch.
    """
    custom = {**_METADATA.get(), **custom_metadata}
    info: dict[str, Any] = {
        **custom,
        **({"tags": {**(custom.get("tags") or {}), **tags}} if tags else {}),
        "timestamp": timestamp,
        "operation": operation,
        "operationParameters": {key: _text(value) for key, value in parameters.items()},
        "isolationLevel": str(isolation),
        "isBlindAppend": is_blind_append,
        "operationMetrics": {key: _text(value) for key, value in metrics.items()},
        "engineInfo": engine_info(),
        "txnId": txn_id,
    }
    return info if read_version is None else {**info, "readVersion": read_version}


def check_custom_metadata(metadata: object) -> None:
    """Check fields that a caller adds to commitInfo.

    Raises:
        InvalidArgumentError: the value is not a mapping of names to JSON values, or it has a field that the commit
            sets, or a field of Delta with a value of another type.
    """
    if not isinstance(metadata, Mapping) or not all(isinstance(name, str) for name in metadata):
        raise InvalidArgumentError(
            f"custom_metadata is {excerpt(metadata)}; expected a dictionary of names to JSON values",
            hint="Give a dictionary with text as its keys",
            code="DELTA_INVALID_COMMIT_PROPERTIES",
        )
    for name, value in metadata.items():
        if name in _RESERVED_FIELDS:
            raise InvalidArgumentError(
                f"custom_metadata has {name} = {excerpt(value)}, but the commit sets {name} itself",
                hint="Leave it out, or use a name that commitInfo does not have",
                code="DELTA_INVALID_COMMIT_PROPERTIES",
            )
        kind = _FIELDS.get(name)
        if kind is not None and value is not None and not _is_of(kind, value):
            raise InvalidArgumentError(
                f"custom_metadata has {name} = {excerpt(value)}; expected {kind}",
                hint="Other engines could not read the table. Give a value of Delta's type, or use another name",
                code="DELTA_INVALID_COMMIT_PROPERTIES",
            )
    try:
        # Python would write NaN and Infinity, which are not JSON: no other reader could open the table.
        json.dumps(dict(metadata), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(
            f"custom_metadata cannot be written as JSON: {error}",
            hint="Give text, finite numbers, booleans, lists and dictionaries of them",
            code="DELTA_INVALID_COMMIT_PROPERTIES",
        ) from error


def _is_of(kind: str, value: object) -> bool:
    if kind == "text":
        return isinstance(value, str)
    return isinstance(value, dict) and (kind == "a dictionary" or all(isinstance(item, str) for item in value.values()))


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=str, separators=(",", ":"), ensure_ascii=False)


def engine_info() -> str:
    """The name and version of this library, as in commitInfo."""
    return f"{distribution.NAME}/{distribution.VERSION}"
