"""The change data feed: the rows that each commit inserted, updated and deleted."""

from lakehouse_lib.change_data.reading import ChangeFeed, change_feed, read_changes
from lakehouse_lib.change_data.versions import CommitRange, commit_range

__all__ = ["ChangeFeed", "CommitRange", "change_feed", "commit_range", "read_changes"]
