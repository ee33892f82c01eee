"""Hide partition values in paths: the name of a partition's folder may hold a person's id."""

import re

_VALUE = re.compile(r"(?<==)[^/\n]*(?=/)")


def without_partition_values(text: str) -> str:
    """The text with ``*`` in place of the values in names of partition folders (``o_custkey=*/``)."""
    return _VALUE.sub("*", text)
