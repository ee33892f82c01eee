"""What other programs do with the tables of the matrix, and its record, from which docs/interop.md is generated."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import deltalake
import pyarrow as pa

from lakehouse_lib.features import FEATURES
from tests.interop.delta_spark.expected import difference
from tests.interop.matrix.lines import LINES
from tests.interop.matrix.our_table import OurTable
from tests.peers import plain, read_delta_rs, read_duckdb

#: The outcomes of each line: a reason for each reader or statement that fails, the number of versions, the features.
RECORD = Path(__file__).with_name("record.json")
READERS = ("delta-spark", "delta-rs", "DuckDB")
WRITES = ("append", "delete", "update", "merge", "optimize")
OTHER_ROWS = "reads other rows"
OF_CHANGES = "change data feed: "

Outcomes = dict[str, dict[str, str]]


def recorded() -> Outcomes:
    """The record, by the titles of the lines."""
    record: Outcomes = json.loads(RECORD.read_text(encoding="utf-8"))
    return {title: dict.fromkeys((*READERS, *WRITES, "features"), "") | line for title, line in record.items()}


def record(title: str, outcome: Mapping[str, str]) -> None:
    """Replace a line of the record; lines that do not exist any more are left out."""
    outcomes = recorded() | {title: dict(outcome)}
    lines = {line: {k: v for k, v in outcomes[line].items() if v} for line in LINES if line in outcomes}
    RECORD.write_text(json.dumps(lines, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def features_of(table: OurTable) -> dict[str, str]:
    """The outcome with the features that a version of a table lists or uses.

    The lowest versions of a protocol imply features. These count only if they are used.
    """
    names = set()
    for version in table.versions:
        snapshot = table.open(version).snapshot
        names |= {
            feature.name
            for feature in FEATURES.values()
            if feature.is_supported(snapshot.protocol)
            and (feature.legacy_versions is None or feature.is_used(snapshot.metadata, snapshot.schema))
        }
    return {"features": ", ".join(sorted(names))}


def other_readers(table: OurTable) -> dict[str, str]:
    """The outcomes of delta-rs and DuckDB."""
    return {
        "delta-rs": reading(table, lambda version: read_delta_rs(table.root, version))
        or reading_changes(table, lambda: delta_rs_changes(table.root)),
        "DuckDB": reading(table, lambda version: read_duckdb(table.root, version)),
    }


def reading(table: OurTable, read: Callable[[int], pa.Table]) -> str:
    """Read every version of a table.

    Args:
        read: the plain rows of a version, as another program reads them.

    Returns:
        "" if each version has the rows that this library wrote; else the first reason, with the number of versions.
    """
    reasons = []
    for version, expected in table.versions.items():
        try:
            rows = read(version)
        except Exception as error:  # every program has its own classes
            reasons.append(shortened(str(error), table))
            continue
        if problem := difference(rows, plain(expected)):
            reasons.append(f"{OTHER_ROWS}: {problem}")
    if not reasons:
        return ""
    share = "" if len(reasons) == len(table.versions) else f"{len(reasons)} of {len(table.versions)} versions: "
    return share + reasons[0]


def delta_rs_changes(root: Path) -> pa.Table:
    """The change data feed of all versions as delta-rs reads it; ``_commit_version`` gets the type of the others."""
    changes = pa.table(deltalake.DeltaTable(root).load_cdf())
    place = changes.schema.get_field_index("_commit_version")
    return changes.set_column(place, "_commit_version", changes["_commit_version"].cast(pa.int64()))


def reading_changes(table: OurTable, read: Callable[[], pa.Table]) -> str:
    """Read the change data feed of a table, if it has one; "" if it has the changes that this library reads.

    Args:
        read: the changes of all versions, as another program reads them.
    """
    changes = table.changes()
    if changes is None:
        return ""
    # delta-rs shows the time inside a commit that has no in-commit timestamp, others show that of its file.
    expected = changes.drop_columns(["_commit_timestamp"])
    try:
        read_rows = plain(read().select(expected.column_names))
    except Exception as error:  # every program has its own classes
        return f"{OF_CHANGES}{shortened(str(error), table)}"
    problem = difference(read_rows, plain(expected))
    return f"{OF_CHANGES}{OTHER_ROWS}: {problem}" if problem else ""


def shortened(error: str, table: OurTable) -> str:
    """The reason in an error, without Java's stack, paths and ids, so that two runs have the same text."""
    lines = error.splitlines()
    coded = [line for line in lines if re.search(r"\[[A-Z_.]{8,}\]", line)]
    text = next((line for line in coded if "[DELTA_" in line), [*coded, *lines][0])
    text = text.replace(str(table.root), "TABLE")
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{32}", "ID", text)
    text = re.sub(r"\S*TABLE.*?\.parquet|\S*TABLE\S*", "PATH", text)
    text = re.sub(r"\{('[\w-]+'(, )?)+\}", lambda names: ", ".join(sorted(re.findall(r"[\w-]+", names[0]))), text)
    text = re.sub(r"ALTER (TABLE|PATH) null", "ALTER TABLE PATH", text)  # it depends on what ran before in the session
    return re.sub(r"^.*?(?=\[[A-Z_.]{8,}\])", "", text)[:160].strip()
