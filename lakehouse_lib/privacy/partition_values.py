"""Folder names of partitions hold values of the rows in them, which may be a person's id."""

import re

_VALUE = re.compile(r"(?<==)[^/\n]*(?=/)")


def without_partition_values(text: str) -> str:
    """A path, or a text with paths, with ``*`` for the values in the names of partition folders (``o_custkey=*/``)."""
    return _VALUE.sub("*", text)
