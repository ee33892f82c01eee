"""The registry: a YAML or JSON file that lists the tables, their sources, and their maintenance.

Relative paths are relative to the file's folder. Locations of tables, quarantines, landing folders, records, the ledger
and the report may be URIs. Schemas, suites and SQL files are paths on a disk.

Airflow reads the registry each time it parses a DAG file, so this package imports only modules that reading needs.
"""

from lakehouse_lib.errors import RegistryError, RegistryUnreadableError
from lakehouse_lib.fleet.registry.dag_settings import DagSettings
from lakehouse_lib.fleet.registry.dag_shares import DagShare, dag_shares
from lakehouse_lib.fleet.registry.reading import Problem, check_registry, read_registry, registry_schema
from lakehouse_lib.fleet.registry.registry import Registry, Report
from lakehouse_lib.fleet.registry.subjects import RESPONSE_HOURS, ApprovalPolicy, Subject, SubjectRows, Through
from lakehouse_lib.fleet.registry.tables import Maintenance, Settings, Source, Table, VacuumPolicy
from lakehouse_lib.fleet.registry.window import BudgetSettings, Window

__all__ = [
    "RESPONSE_HOURS",
    "ApprovalPolicy",
    "BudgetSettings",
    "DagSettings",
    "DagShare",
    "Maintenance",
    "Problem",
    "Registry",
    "RegistryError",
    "RegistryUnreadableError",
    "Report",
    "Settings",
    "Source",
    "Subject",
    "SubjectRows",
    "Table",
    "Through",
    "VacuumPolicy",
    "Window",
    "check_registry",
    "dag_shares",
    "read_registry",
    "registry_schema",
]
