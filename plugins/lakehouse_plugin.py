"""All that Airflow loads from this folder: registers the plugin in a checkout that is not installed.

Where the package is installed, its entry point has registered the plugin already, and nothing is done here.
"""

from importlib.metadata import entry_points

if not any(point.value.startswith("lakehouse_airflow.") for point in entry_points(group="airflow.plugins")):
    from lakehouse_airflow.plugin import LakehousePlugin

    __all__ = ["LakehousePlugin"]
