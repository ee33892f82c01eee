"""The transaction log. This module does not import pyarrow, because sensors import it."""

from lakehouse_lib.log.latest import latest_version

__all__ = ["latest_version"]
