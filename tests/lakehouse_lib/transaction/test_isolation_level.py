"""The isolation level of a commit, and the appends that it lets pass."""

import pytest

from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.protocol.actions import Metadata
from lakehouse_lib.protocol.table_properties import IsolationLevel
from lakehouse_lib.transaction.conflicts.isolation_level import allows_append, level_of

SERIALIZABLE, WRITE_SERIALIZABLE, SNAPSHOT_ISOLATION = IsolationLevel


def metadata(level: str | None) -> Metadata:
    return Metadata("id", "{}", configuration={} if level is None else {"delta.isolationLevel": level})


@pytest.mark.parametrize(
    ("before", "after", "level"),
    [
        (metadata(None), None, SERIALIZABLE),
        (metadata("writeserializable"), None, WRITE_SERIALIZABLE),
        (None, metadata("WriteSerializable"), WRITE_SERIALIZABLE),
        (metadata("Foo"), metadata("WriteSerializable"), WRITE_SERIALIZABLE),
        (metadata("WriteSerializable"), metadata(None), SERIALIZABLE),
    ],
)
def test_the_isolation_level_is_a_table_property(
    before: Metadata | None, after: Metadata | None, level: IsolationLevel
) -> None:
    assert level_of(before, after, changes_only_files=False, table="t") is level
    assert level_of(before, after, changes_only_files=True, table="t") is SNAPSHOT_ISOLATION


def test_a_level_that_is_not_valid_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"delta.isolationLevel = 'Foo'"):
        level_of(metadata("Foo"), metadata("Foo"), changes_only_files=False, table="t")


@pytest.mark.parametrize("is_blind", [True, False])
@pytest.mark.parametrize("writes_metadata", [True, False])
def test_the_appends_that_a_level_reorders(is_blind: bool, writes_metadata: bool) -> None:
    passing = {
        level: allows_append(level, is_blind_append=is_blind, writes_metadata=writes_metadata)
        for level in IsolationLevel
    }
    assert passing == {
        SERIALIZABLE: False,
        WRITE_SERIALIZABLE: is_blind and not writes_metadata,
        SNAPSHOT_ISOLATION: True,
    }
