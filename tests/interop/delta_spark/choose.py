"""Copy some of the tables that `make interop` wrote into tests/data, where `make test` reads them.

``python -m tests.interop.delta_spark.choose``, from the checkout's folder, replaces the existing copies.
"""

from __future__ import annotations

import shutil
from pathlib import Path

TABLES = Path(".peers/delta-spark-tables")
CHOSEN = Path("tests/data/delta_spark")

#: Each feature, each kind of checkpoint and each type once. Clones are left out, because they contain their source's
#: folder.
NAMES = (
    "change_data_feed",
    "change_data_feed_vectors",
    "checkpoint_json_statistics",
    "checkpoint_mapped",
    "checkpoint_multi_part",
    "checkpoint_v2_json",
    "checkpoint_v2_parquet",
    "clustering",
    "constraints",
    "decimals",
    "defaults",
    "deletion_vectors_checkpointed",
    "deletion_vectors_prefixed",
    "empty",
    "generated_columns",
    "iceberg_compatibility",
    "identity",
    "in_commit_timestamps",
    "legacy_calendar",
    "log_compaction",
    "mapping_by_id",
    "mapping_removed",
    "mapping_upgraded",
    "materialized_partitions",
    "nested",
    "partition_by_binary",
    "partition_by_date",
    "partition_by_decimal",
    "partition_by_floats",
    "partition_by_integers",
    "partition_by_string",
    "partition_by_timestamp_new_york",
    "partition_by_timestamp_without_zone",
    "primitives",
    "row_tracking",
    "schema_evolution",
    "timestamp_ntz",
    "timestamps_int96",
    "vacuumed",
    "variant",
    "void",
    "widening_nested",
    "widening_of_others",
)
#: Readers ignore checksums here. These tables keep them, to test that.
WITH_CHECKSUMS = {"in_commit_timestamps", "log_compaction"}


def main() -> None:
    shutil.rmtree(CHOSEN, ignore_errors=True)
    for name in NAMES:
        shutil.copytree(TABLES / "expected" / name, CHOSEN / "expected" / name)
        left_out = [".*.crc"] if name in WITH_CHECKSUMS else ["*.crc"]
        shutil.copytree(TABLES / "tables" / name, CHOSEN / "tables" / name, ignore=shutil.ignore_patterns(*left_out))
    files = [path for path in CHOSEN.rglob("*") if path.is_file()]
    print(f"{len(NAMES)} tables, {len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
