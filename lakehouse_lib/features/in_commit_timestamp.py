"""In-commit timestamps: the time of a commit in its commitInfo (PROTOCOL.md, In-Commit Timestamps).

They increase with the version, even if clocks go back. All times are ms since the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.features.feature import Feature, HasProperty
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
    HasProperty(IN_COMMIT_TIMESTAMPS),
    "a commit contains its time, which increases with the version even if clocks go back",
)

_SINCE = IN_COMMIT_TIMESTAMP_VERSION.key
_SINCE_TIME = IN_COMMIT_TIMESTAMP_TIME.key


def effective_properties(properties: Mapping[str, str], protocol: Protocol | None) -> Mapping[str, str]:
    """The properties without ``delta.enableInCommitTimestamps`` if the protocol does not have the feature.

    Without the feature the property has no effect (PROTOCOL.md, Table Features). Some engines set only the property.
    """
    if not is_enabled(properties) or (protocol is not None and FEATURE.is_supported(protocol)):
        return properties
    return {key: value for key, value in properties.items() if key != IN_COMMIT_TIMESTAMPS.key}


def is_enabled(properties: Mapping[str, str]) -> bool:
    """Whether commits to a table with these effective properties have in-commit timestamps."""
    return IN_COMMIT_TIMESTAMPS.is_on(properties)


def has_time(properties: Mapping[str, str], version: int) -> bool:
    """Whether the commit of ``version`` must have an in-commit timestamp.

    Args:
        properties: the table's effective properties at this version or a later one.
    """
    if not is_enabled(properties):
        return False
    since = properties.get(_SINCE, "0")  # not set: enabled since the table was created
    return not since.isdecimal() or version >= int(since)


def timestamp_of(info: Mapping[str, Any], *, table: str, version: int) -> int:
    """The in-commit timestamp of a commitInfo.

    Raises:
        LogCorruptedError: the timestamp is missing or not an integer.
    """
    moment = info.get("inCommitTimestamp")
    if not isinstance(moment, int) or isinstance(moment, bool):
        raise LogCorruptedError(
            f"inCommitTimestamp is {moment!r}; expected a time, because {IN_COMMIT_TIMESTAMPS.key} is true",
            table=table,
            version=version,
            hint="Restore the commit file from a backup, or select versions by number",
        )
    return moment


def next_timestamp(now: int, previous: int | None) -> int:
    """The in-commit timestamp of a commit: now, or 1 ms after the previous version if the clock went back.

    Args:
        previous: the time of the previous version: its in-commit timestamp or, if the commit enables in-commit
            timestamps, the modification time of its commit file. None: the commit is version 0.
    """
    return now if previous is None else max(now, previous + 1)


def with_enablement(before: Metadata | None, after: Metadata, version: int, moment: int) -> Metadata:
    """The metadata of a commit, with the version and time since which in-commit timestamps are enabled.

    Args:
        before: the metadata of the preceding version; None for a new table.
        after: the metadata that the commit writes.
        version, moment: the version and the timestamp of the commit.
    """
    if not is_enabled(after.configuration):
        return after
    since: Mapping[str, str] = {}
    if before is not None and is_enabled(before.configuration):
        since = {key: before.configuration[key] for key in (_SINCE, _SINCE_TIME) if key in before.configuration}
    elif before is not None:
        since = {_SINCE: str(version), _SINCE_TIME: str(moment)}
    unrelated = {key: value for key, value in after.configuration.items() if key not in (_SINCE, _SINCE_TIME)}
    return replace(after, configuration={**unrelated, **since})
