"""The transaction log. Importing this module is cheap, because sensors import it in a loop."""

from lakehouse_lib.log.latest import latest_version

__all__ = ["latest_version"]
