"""Sensors that wait for a table."""

from lakehouse_airflow.sensors.freshness import LakehouseFreshnessSensor
from lakehouse_airflow.sensors.partition import LakehousePartitionSensor
from lakehouse_airflow.sensors.quality import LakehouseQualitySensor
from lakehouse_airflow.sensors.small_files import LakehouseSmallFilesSensor
from lakehouse_airflow.sensors.version import LakehouseTableVersionSensor

__all__ = [
    "LakehouseFreshnessSensor",
    "LakehousePartitionSensor",
    "LakehouseQualitySensor",
    "LakehouseSmallFilesSensor",
    "LakehouseTableVersionSensor",
]
