"""What Airflow registers: the pages. Hooks come by provider metadata; operators and triggers are plain imports."""

from __future__ import annotations

from typing import Any

from airflow.plugins_manager import AirflowPlugin


class LakehousePlugin(AirflowPlugin):
    name = "lakehouse"

    @property
    def fastapi_apps(self) -> list[dict[str, Any]]:  # type: ignore[override]
        # A property, because every Airflow process loads plugins and only the API server needs this import.
        from lakehouse_airflow.links import URL_PREFIX
        from lakehouse_airflow.pages import app

        return [{"app": app, "url_prefix": URL_PREFIX, "name": "Lakehouse"}]
