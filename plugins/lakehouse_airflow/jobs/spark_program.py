"""Check a connection of the type ``spark``, and find its spark-submit."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_submit import ALLOWED_SPARK_BINARIES, DEFAULT_SPARK_BINARY

from lakehouse_airflow.errors import InvalidConnectionError


def check_extra(conn_id: str, extra: Mapping[str, Any]) -> None:
    """Reject extras that select a program, because users who may edit connections must not run programs on the workers.

    The provider has the same rules for ``spark-binary`` and ``spark-home``, but only for a binary that it looks up
    itself. The provider writes ``keytab`` into a temporary file and never deletes the file.

    Raises:
        AirflowFailException: the extra has such a key; the text names connection and key, and no secret value.
    """
    if extra.get("deploy-mode", "client") != "client":
        raise InvalidConnectionError(
            f"the Spark connection {conn_id!r} has deploy-mode {extra['deploy-mode']!r}; expected client, because the "
            "driver reads secrets from the memory of the task's machine. A standalone cluster also refuses Python "
            "applications in the mode cluster. With client, the executors still run on the cluster"
        )
    binary = extra.get("spark-binary", DEFAULT_SPARK_BINARY)
    if binary not in ALLOWED_SPARK_BINARIES:
        raise InvalidConnectionError(
            f"the Spark connection {conn_id!r} has spark-binary {binary!r}; expected one of "
            f"{', '.join(ALLOWED_SPARK_BINARIES)}, which is looked up on the worker's PATH"
        )
    if extra.get("spark-home"):
        raise InvalidConnectionError(
            f"the Spark connection {conn_id!r} has spark-home in its extra, which is not allowed; put that folder's "
            "spark-submit on the worker's PATH"
        )
    if extra.get("keytab"):
        raise InvalidConnectionError(
            f"the Spark connection {conn_id!r} has keytab in its extra, which the provider would leave on the worker's "
            "disk; install the keytab on the workers, and set spark.kerberos.keytab and spark.kerberos.principal in "
            "spark_conf"
        )


def check_kinds(conn_id: str, extra: Mapping[str, Any]) -> None:
    """Check the types of extras that the provider reads, because its own errors name neither connection nor key.

    Args:
        extra: the extra as Airflow parses it, with null values, because the provider reads a null port.

    Raises:
        AirflowFailException: a value is of the wrong type; the text names connection, key and value.
    """
    port = extra.get("rest-port", 6066)
    try:
        int(port)
    except (TypeError, ValueError):
        raise InvalidConnectionError(
            f"the Spark connection {conn_id!r} has rest-port {port!r}; expected a whole number, or no rest-port"
        ) from None
    for key in ("queue", "namespace", "principal"):
        if not isinstance(extra.get(key), str | None):
            raise InvalidConnectionError(f"the Spark connection {conn_id!r} has {key} {extra[key]!r}; expected a text")


def spark_submit_path(name: str) -> str:
    """The path of a program of Spark: on PATH, else beside this Python; the name itself if it is in neither."""
    beside_python = Path(sys.executable).parent / name
    # Airflow may run from an environment whose bin folder is not on PATH.
    return shutil.which(name) or (str(beside_python) if beside_python.exists() else name)


def spark_home(spark_submit: str) -> dict[str, str]:
    """The variable SPARK_HOME for the spark-submit of this Python's pyspark.

    Without this variable, this spark-submit does not find Spark in a path with a space. Empty for another spark-submit,
    or if SPARK_HOME is set.
    """
    spec = importlib.util.find_spec("pyspark")
    is_of_pyspark = Path(shutil.which(spark_submit) or spark_submit).parent == Path(sys.executable).parent
    if not is_of_pyspark or spec is None or spec.origin is None or "SPARK_HOME" in os.environ:
        return {}
    return {"SPARK_HOME": str(Path(spec.origin).parent)}
