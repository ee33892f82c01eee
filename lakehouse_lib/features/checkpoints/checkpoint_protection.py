"""The feature checkpointProtection: old checkpoints hide commits that need a dropped feature (its proposal).

A cleanup of the log deletes the versions before the protected version together or not at all.
"""

from __future__ import annotations

from dataclasses import replace

from lakehouse_lib.features.feature import Feature, always, is_never_enabled
from lakehouse_lib.protocol.actions import Metadata, Protocol
from lakehouse_lib.protocol.table_properties import CHECKPOINT_PROTECTION

FEATURE = Feature(
    "checkpointProtection",
    False,
    True,
    True,
    is_never_enabled,
    f"a log cleanup deletes the versions before {CHECKPOINT_PROTECTION.key} together or not at all",
    "proposal",
    in_use=always,
)


def protected_below(protocol: Protocol, metadata: Metadata) -> int:
    """The version before which a log cleanup deletes all versions or none; 0: no version is protected."""
    return CHECKPOINT_PROTECTION.of(metadata.configuration) if FEATURE.is_supported(protocol) else 0


def with_protection(metadata: Metadata, version: int) -> Metadata:
    """The metadata that protects at least the versions before ``version``."""
    protected = max(version, CHECKPOINT_PROTECTION.of(metadata.configuration))
    return replace(metadata, configuration={**metadata.configuration, CHECKPOINT_PROTECTION.key: str(protected)})


def with_protection_of(metadata: Metadata, before: Metadata) -> Metadata:
    """The metadata of a commit, with at least the protection that the table has before the commit.

    A restore, for example, commits the metadata of an older version, which may protect fewer versions.

    Args:
        before: the metadata before the commit.
    """
    protected = CHECKPOINT_PROTECTION.of(before.configuration)
    return with_protection(metadata, protected) if protected else metadata


def without_protection(metadata: Metadata) -> Metadata:
    """The metadata for another table, whose log has no version to protect."""
    configuration = {key: value for key, value in metadata.configuration.items() if key != CHECKPOINT_PROTECTION.key}
    return replace(metadata, configuration=configuration)
