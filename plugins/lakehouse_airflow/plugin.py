"""The Airflow plugin, which registers the pages.

Provider metadata registers the hook; operators, sensors and triggers are plain imports.
"""

from __future__ import annotations

import logging
from typing import Any

from airflow import plugins_manager
from airflow.plugins_manager import AirflowPlugin

logger = logging.getLogger(__name__)


class LakehousePlugin(AirflowPlugin):
    name = "lakehouse"

    #: The entry of Airflow's navigation, which shows the pages in a frame. The paths are relative, because the URL of
    #: Airflow may itself have a path.
    external_views = [  # noqa: RUF012 - Airflow reads a list
        {
            "name": "Lakehouse",
            "href": "lakehouse/tables",
            "url_route": "lakehouse",
            "destination": "nav",
            "icon": "lakehouse/static/icon.svg",
            "icon_dark_mode": "lakehouse/static/icon-dark.svg",
            "nav_top_level": True,
        }
    ]

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """The app of the pages; empty if its import fails. Airflow then shows an import error of the plugin.

        This is a property, because every Airflow process loads plugins, but only the API server needs the app. The
        property raises no error, because the API server would then not start.
        """
        try:
            from lakehouse_airflow.links import URL_PREFIX
            from lakehouse_airflow.pages.application import app
        except Exception as error:
            logger.exception("the pages of the plugin %s cannot be imported", self.name)
            _import_errors()[str(self.source or self.name)] = f"{type(error).__name__}: {error}"
            return []
        return [{"app": app, "url_prefix": URL_PREFIX, "name": "Lakehouse"}]


def _import_errors() -> dict[str, str]:
    """The import errors of plugins, which Airflow shows. Airflow 3.1 has a variable instead of the function."""
    if hasattr(plugins_manager, "get_import_errors"):
        errors: dict[str, str] = plugins_manager.get_import_errors()
        return errors
    return plugins_manager.import_errors
