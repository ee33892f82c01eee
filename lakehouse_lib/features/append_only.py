"""The feature appendOnly: commits that remove rows can be forbidden (PROTOCOL.md, Append-only Tables)."""

from __future__ import annotations

from lakehouse_lib.features.feature import Feature, HasProperty
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.table_properties import APPEND_ONLY

FEATURE = Feature(
    "appendOnly",
    False,
    True,
    True,
    HasProperty(APPEND_ONLY),
    "commits that remove rows are refused",
    legacy_versions=(1, 2),
)


def forbids_removal(before: Metadata) -> bool:
    """Whether a commit may not remove rows, by the table's metadata before the commit."""
    return APPEND_ONLY.is_on(before.configuration)
