"""Actions of a table partitioned by day with ten rows in each file, and a record of reads of its checkpoints."""

from __future__ import annotations

import pyarrow as pa

from lakehouse_lib.log.checkpoint import part
from tests.log_builder import add, field, metadata, statistics

PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
FIELDS = [("id", "long"), ("moment", "timestamp"), ("text", "string"), ("price", "decimal(20,2)"), ("day", "date")]
META = metadata(*(field(name, kind) for name, kind in FIELDS), partition_by=["day"])
PARSED = pa.struct(
    {
        "numRecords": pa.int64(),
        "tightBounds": pa.bool_(),
        **{
            end: pa.struct(
                {
                    "id": pa.int64(),
                    "moment": pa.timestamp("us", tz="UTC"),
                    "text": pa.string(),
                    "price": pa.decimal128(20, 2),
                }
            )
            for end in ("minValues", "maxValues")
        },
        "nullCount": pa.struct({name: pa.int64() for name in ("id", "moment", "text", "price")}),
    }
)


def file(number, **more):
    low, high = number * 10, number * 10 + 9
    body = {"partitionValues": {"day": f"2026-01-{1 + number // 10:02d}"}, "stats": statistics(low, high, 10)}
    return add(f"f{number:03d}", **(body | more))


def record_reads(monkeypatch):
    """Record (leaf, row group) of every later read of a checkpoint."""
    reads = []
    real = part._read

    def read(file, block, leaves):
        reads.extend((".".join(leaf), block) for leaf in leaves)
        return real(file, block, leaves)

    monkeypatch.setattr(part, "_read", read)
    return reads
