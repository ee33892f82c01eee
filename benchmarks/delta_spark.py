"""delta-spark as a contestant. It needs another Spark than the project, so it has its own Python environment.

The modules that run there (this one, ``spark_session``, ``contestant``, ``log.delta_spark``) import nothing else of the
project at the start.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks import spark_session

PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"
_PEERS = Path(__file__).resolve().parent.parent / ".peers"
#: The interpreter of its environment; ``make interop`` and ``make bench-dml`` create it.
PYTHON = _PEERS / "delta-spark" / "bin" / "python"
_IVY = _PEERS / "ivy"


def session(driver_memory: str) -> Any:
    """A session of Spark with delta-spark's extensions."""
    builder = (
        spark_session.builder(driver_memory)
        .config("spark.jars.packages", PACKAGE)
        .config("spark.jars.ivy", str(_IVY))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    )
    return spark_session.started(builder)


def run(session: Any, verb: str, arguments: dict[str, Any]) -> object:
    """Run a verb; ``arguments`` has the table's path in ``table``."""
    from delta.tables import DeltaTable

    table = DeltaTable.forPath(session, arguments["table"])
    if verb == "compact":
        return table.optimize().executeCompaction().collect()
    if verb == "z_order":
        # Its OPTIMIZE has no argument for the size of the files.
        session.conf.set("spark.databricks.delta.optimize.maxFileSize", str(arguments["target_size"]))
        session.conf.set("spark.databricks.delta.optimize.minFileSize", str(arguments["target_size"]))
        return table.optimize().executeZOrderBy(*arguments["columns"]).collect()
    if verb == "delete":
        return table.delete(arguments["predicate"])
    if verb == "update":
        return table.update(condition=arguments["predicate"], set=arguments["updates"])
    source = session.read.parquet(arguments["source"]).alias("s")
    merger = table.alias("t").merge(source, "t.order_id = s.order_id")
    return merger.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
