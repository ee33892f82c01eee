"""The time that a commit carries inside, which rises with the versions whatever clocks do (PROTOCOL.md, section
In-Commit Timestamps). All times are ms since the epoch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.features.feature import Feature, PropertySet
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.protocol.table_properties import (
    IN_COMMIT_TIMESTAMP_TIME,
    IN_COMMIT_TIMESTAMP_VERSION,
    IN_COMMIT_TIMESTAMPS,
)

FEATURE = Feature(
    "inCommitTimestamp",
    False,
    True,
    True,
    PropertySet(IN_COMMIT_TIMESTAMPS),
    "a commit's time is inside it, and rises with the versions whatever clocks do",
)

_SINCE = IN_COMMIT_TIMESTAMP_VERSION.key
_SINCE_TIME = IN_COMMIT_TIMESTAMP_TIME.key


def effective_properties(properties: Mapping[str, str], protocol: Protocol | None) -> Mapping[str, str]:
    """The properties without ``delta.enableInCommitTimestamps`` where the protocol does not list the feature.

    A property alone binds no writer (PROTOCOL.md, Table Features), and some engines set it without the feature.
    """
    if not is_enabled(properties) or (protocol is not None and FEATURE.is_supported(protocol)):
        return properties
    return {key: value for key, value in properties.items() if key != IN_COMMIT_TIMESTAMPS.key}


def is_enabled(properties: Mapping[str, str]) -> bool:
    """Whether commits to a table with these properties, as its protocol lets them count, carry their time."""
    return IN_COMMIT_TIMESTAMPS.is_on(properties)


def has_time(properties: Mapping[str, str], version: int) -> bool:
    """Whether the commit of ``version`` has an in-commit timestamp that counts.

    Args:
        properties: the table's, at this version or a later one.
    """
    if not is_enabled(properties):
        return False
    since = properties.get(_SINCE, "0")  # unset: since the table was created
    return not since.isdecimal() or version >= int(since)


def time_in(info: Mapping[str, Any], *, table: str, version: int) -> int:
    """The time in a commitInfo.

    Raises:
        LogCorruptedError: there is none.
    """
    moment = info.get("inCommitTimestamp")
    if not isinstance(moment, int) or isinstance(moment, bool):
        raise LogCorruptedError(
            f"the commitInfo has the inCommitTimestamp {moment!r}, though {IN_COMMIT_TIMESTAMPS.key} is set",
            table=table,
            version=version,
            hint="Restore the commit file from a backup, or travel by version",
        )
    return moment


def since_when(before: Metadata | None, after: Metadata, version: int, moment: int) -> Metadata:
    """Metadata that a commit writes, with the version and time from which the table's commits carry their time.

    Args:
        before: of the version before; None for a new table.
        version, moment: of the commit.
    """
    if not is_enabled(after.configuration):
        return after
    since: Mapping[str, str] = {}
    if before is not None and is_enabled(before.configuration):
        since = {key: before.configuration[key] for key in (_SINCE, _SINCE_TIME) if key in before.configuration}
    elif before is not None:
        since = {_SINCE: str(version), _SINCE_TIME: str(moment)}
    rest = {key: value for key, value in after.configuration.items() if key not in (_SINCE, _SINCE_TIME)}
    return replace(after, configuration={**rest, **since})
