"""The tables that a task has read and written, for OpenLineage and for Airflow's hook lineage."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from lakehouse_airflow.assets import asset_uri

if TYPE_CHECKING:
    from lakehouse_airflow.hook import LakehouseHook

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Lineage:
    """The locations that a task has read and written.

    Attributes:
        inputs: locations of tables and of landing folders.
        outputs: locations of tables. The first is the table of ``result``.
        result: the result of the operator, with ``version`` and ``metrics``.
        options: the storage options of the result's table, which may hold secrets. OpenLineage reads the table in a
            forked process. In some deployments, this process cannot ask Airflow for the connection.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    result: Mapping[str, Any] = field(default_factory=dict)
    options: dict[str, str] | None = field(default=None, repr=False)

    @classmethod
    def of_table(cls, hook: LakehouseHook, table: str, others: Iterable[str], result: Mapping[str, Any]) -> Lineage:
        """The lineage of a task that has written or only read ``table``, and has read the locations ``others``.

        If a result has no ``read_version``, such as the health of a table, its ``version`` was read and not committed.

        Args:
            table: a name in the registry, or a location.
        """
        location = hook.uri(table).rstrip("/")
        if result.get("version") is None or "read_version" not in result:
            return cls((location, *others), (), result)
        return cls(tuple(others), (location,), result, hook.storage_options(table))


def dataset_name(location: str) -> tuple[str, str]:
    """The namespace and the name of a location by the naming rules of OpenLineage."""
    parts = urlsplit(asset_uri(location))
    if parts.scheme == "file":
        return "file", unquote(parts.path)
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/") or "/"


def openlineage_of(lineage: Lineage | None) -> Any:
    """The ``OperatorLineage`` of a task, with schema, version and statistics of the table that the task has written.

    Only OpenLineage's provider calls this function, so this function imports the provider. If the table cannot be read,
    the schema is left out.
    """
    from airflow.providers.openlineage.extractors import OperatorLineage
    from openlineage.client.event_v2 import InputDataset, OutputDataset

    if lineage is None:
        return OperatorLineage()
    inputs = [InputDataset(*dataset_name(location), facets=_delta_facets()) for location in lineage.inputs]
    outputs = []
    for number, location in enumerate(lineage.outputs):
        is_of_result = number == 0
        outputs.append(
            OutputDataset(
                *dataset_name(location),
                facets=_table_facets(lineage, location) if is_of_result else _delta_facets(),
                outputFacets=_statistics(lineage.result) if is_of_result else {},
            )
        )
    return OperatorLineage(inputs=inputs, outputs=outputs)


def add_hook_input(hook: Any, location: str) -> None:
    """Record in Airflow's hook lineage that the running task reads a table.

    Airflow discards the record if no plugin reads the hook lineage.

    Args:
        hook: the hook that has opened the table.
    """
    from airflow.providers.common.compat.lineage.hook import get_hook_lineage_collector

    get_hook_lineage_collector().add_input_asset(context=hook, uri=asset_uri(location))


def _delta_facets() -> dict[str, Any]:
    from openlineage.client.facet_v2 import storage_dataset

    return {"storage": storage_dataset.StorageDatasetFacet(storageLayer="delta", fileFormat="parquet")}


def _table_facets(lineage: Lineage, location: str) -> dict[str, Any]:
    from openlineage.client.facet_v2 import dataset_version_dataset, schema_dataset

    from lakehouse_lib import DeltaTable

    version = lineage.result["version"]
    facets = _delta_facets()
    facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(datasetVersion=str(version))
    try:
        schema = DeltaTable(location, version, lineage.options).schema()
    except Exception as error:
        log.warning("the schema of %s is not in the lineage: %s", location, error)
        return facets
    facets["schema"] = schema_dataset.SchemaDatasetFacet(fields=_fields(schema))
    return facets


def _fields(schema: Any) -> list[Any]:
    from openlineage.client.facet_v2 import schema_dataset

    return [
        schema_dataset.SchemaDatasetFacetFields(name=column.name, type=str(column.type)) for column in schema.fields
    ]


def _statistics(result: Mapping[str, Any]) -> dict[str, Any]:
    """The numbers of rows, bytes and files that the task has written; empty if the result has none of them."""
    from openlineage.client.facet_v2 import output_statistics_output_dataset

    metrics = result.get("metrics") or {}
    counts = {
        "rowCount": result.get("rows_loaded", metrics.get("numOutputRows")),
        "size": metrics.get("numOutputBytes", metrics.get("numAddedBytes")),
        "fileCount": metrics.get("numAddedFiles", metrics.get("numFiles")),
    }
    if all(count is None for count in counts.values()):
        return {}
    return {"outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(**counts)}
