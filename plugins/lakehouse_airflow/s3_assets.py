"""Assets in S3, as Airflow's amazon provider describes them, for installations without that provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.sdk import Asset


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Check the URI of an asset.

    Raises:
        ValueError: the URI has no bucket.
    """
    if not uri.netloc:
        raise ValueError("URI format s3:// must contain a bucket name")
    return uri


def create_asset(*, bucket: str, key: str, extra: dict[str, Any] | None = None) -> Asset:
    """The asset of an object or a folder, for hook lineage."""
    from airflow.sdk import Asset

    return Asset(f"s3://{bucket}/{key}", extra=extra)


def convert_asset_to_openlineage(asset: Asset, lineage_context: Any) -> Dataset:  # noqa: ARG001 - Airflow's signature
    """The OpenLineage dataset of an asset: namespace ``s3://bucket``, name ``key``."""
    from airflow.providers.common.compat.openlineage.facet import Dataset

    from lakehouse_airflow.lineage import dataset_name

    return Dataset(*dataset_name(asset.uri))
