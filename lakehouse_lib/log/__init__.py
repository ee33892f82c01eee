"""The transaction log. This module stays light: sensors import it in a loop."""

from lakehouse_lib.log.latest import latest_version

__all__ = ["latest_version"]
