"""The only file that Airflow loads from the plugins folder: registers the plugin if the package is not installed.

An installed package registers the plugin through its entry point; then this module does nothing.
"""

from importlib.metadata import entry_points

if not any(point.value.startswith("lakehouse_airflow.") for point in entry_points(group="airflow.plugins")):
    from lakehouse_airflow.plugin import LakehousePlugin

    __all__ = ["LakehousePlugin"]
