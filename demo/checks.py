"""The checks at the end of the demo; each reports the differences that it finds."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import deltalake
import duckdb
import pyarrow.parquet as pq

from demo import erasures, readers
from demo.faults import Faults, SpoiledRow, parse
from demo.home import Home
from demo.lakehouse import COLUMNS, KEYS, SELECTIVE, quarantine_of
from demo.person import Person
from demo.pipeline import Release
from demo.users import OFFICER, REQUESTER
from lakehouse_lib import DeltaTable

# The number of older versions that the three readers compare; loaded tables have at least as many.
OLDER_VERSIONS = 5
# A selective query must read at most this share of a Z-ordered table's files.
MOST_FILES_READ = 1 / 3
# The load and the erasure change the rows of the report's tables; maintenance does not.
REPORTS_EXPECTED = 2

QUERIES = {
    "TPC-H Q1": """
        select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
               sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), count(*)
        from lineitem where l_shipdate <= date '1998-09-02' group by all order by all""",
    "TPC-H Q3": """
        select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate, o_shippriority
        from customer, orders, lineitem
        where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
          and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
        group by l_orderkey, o_orderdate, o_shippriority order by revenue desc, o_orderdate, l_orderkey limit 10""",
    "TPC-H Q6": """
        select sum(l_extendedprice * l_discount), count(*)
        from lineitem
        where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01'
          and l_discount between 0.05 and 0.07 and l_quantity < 24""",
}
_DUCKDB_TYPES = {"long": "BIGINT", "integer": "INTEGER", "string": "VARCHAR", "date": "DATE"}


@dataclass(frozen=True)
class Check:
    """A statement about the lakehouse, and the differences found; it holds if there are none."""

    name: str
    problems: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.problems


def queries_agree(home: Home, faults: Faults, person: Person) -> Check:
    """TPC-H queries on the tables equal DuckDB on the raw CSV without the injected faults and the erased customer."""
    with duckdb.connect() as truth, duckdb.connect() as loaded:
        for table in COLUMNS:
            _raw_table(truth, home, table, faults)
            loaded.register(table, DeltaTable(str(home.tables / table)).to_pyarrow_table())
        _forget(truth, person)
        problems = []
        for name, query in QUERIES.items():
            expected, got = truth.execute(query).fetchall(), loaded.execute(query).fetchall()
            if expected != got:
                problems.append(f"{name}: {expected[:3]}... on the raw files, {got[:3]}... on the tables")
        for table in COLUMNS:
            count = f"select count(*) from {table}"  # noqa: S608 - a name of ours
            expected, got = truth.execute(count).fetchall(), loaded.execute(count).fetchall()
            if expected != got:
                problems.append(f"{table}: {expected[0][0]:,} rows in the raw files, {got[0][0]:,} in the table")
    return Check("TPC-H Q1, Q3 and Q6 equal the raw files without the injected faults, to the cent", tuple(problems))


def quarantine_is_exact(home: Home, faults: Faults) -> Check:
    """The quarantine tables have exactly the rows of the injector's list, each with its line, reason and values."""
    problems: list[str] = []
    for table in COLUMNS:
        expected = Counter(_as_quarantined(row) for row in faults.rows if row.table == table)
        path = home.tables / quarantine_of(table)
        got = Counter(_quarantined(path, table)) if path.exists() else Counter()
        problems += [f"{table}: missing from quarantine: {_show(row)}" for row in (expected - got)]
        problems += [f"{table}: in quarantine, but never injected: {_show(row)}" for row in (got - expected)]
    return Check("the quarantined rows and their reasons are exactly the injected faults", tuple(problems))


def record_stands(home: Home, request: str, *, own_answer_refused: bool) -> Check:
    """The requester could not approve, the record names requester and approver, and the person's keys are deleted."""
    record, folder = erasures.read_record(home, request), home.ledger / request
    people = (record.get("requester"), record.get("approver", {}).get("id"))
    problems = [
        said
        for holds, said in (
            (own_answer_refused, f"the answer of {REQUESTER}, the requester, was accepted"),
            (people == (REQUESTER, OFFICER), f"the record has requester {people[0]} and approver {people[1]}"),
            (not (folder / "keys.json").exists(), "the person's keys are still in the ledger"),
        )
        if not holds
    ]
    return Check("the requester could not approve, and the ledger has the record of the erasure", tuple(problems))


def skipping_is_real(home: Home) -> Check:
    """A selective query reads at most a third of the files, and as many as a count from the footers by pyarrow."""
    problems = []
    for table, predicates in SELECTIVE.items():
        path = home.tables / table
        live = [Path(uri.removeprefix("file://")) for uri in deltalake.DeltaTable(str(path)).file_uris()]
        lakehouse_table = DeltaTable(str(path))
        for column, predicate in predicates.items():
            from_footers = sum(_may_hold(file, column, literal(predicate)) for file in live)
            from_log = lakehouse_table.files(predicate).num_rows
            if from_footers != from_log:
                problems.append(f"{table}, {predicate}: {from_log} files by the log, {from_footers} by the footers")
            if from_log > len(live) * MOST_FILES_READ:
                problems.append(f"{table}, {predicate}: reads {from_log} of {len(live)} files, more than a third")
    return Check(
        "a selective query reads at most a third of the files, as counted by the log and by the footers",
        tuple(problems),
    )


def readers_agree(home: Home, *, older: int = 0) -> Check:
    """delta-rs and DuckDB read the same rows as this library: each table's latest and up to `older` older versions."""
    problems = []
    with readers.connect() as connection:
        for path in _tables(home):
            latest = DeltaTable(str(path)).version()
            if path.name in COLUMNS and latest < older:
                problems.append(f"{path.name}: has {latest + 1} versions; expected more than {older}")
            for version in range(max(0, latest - older), latest + 1):
                fingerprints = {name: read(connection, path, version) for name, read in readers.READERS.items()}
                if len(set(fingerprints.values())) > 1:
                    rows = ", ".join(
                        f"{name} {fingerprint.rows:,} rows ({fingerprint.hash:x})"
                        for name, fingerprint in fingerprints.items()
                    )
                    problems.append(f"{path.name} version {version}: {rows}")
    which = f"the latest and {older} older versions" if older else "the latest version"
    return Check(f"delta-rs and DuckDB read the same rows as this library: every table, {which}", tuple(problems))


def vacuum_was_exact(home: Home) -> Check:
    """After vacuum a table's folder has exactly the files that delta-rs lists, and the log."""
    problems = []
    for table in COLUMNS:
        path = home.tables / table
        listed = {Path(uri.removeprefix("file://")) for uri in deltalake.DeltaTable(str(path)).file_uris()}
        stored = {
            file for file in path.rglob("*") if file.is_file() and not file.relative_to(path).parts[0].startswith("_")
        }
        problems += [
            f"{table}: {file.relative_to(path)} is in the folder, but not in the table" for file in stored - listed
        ]
        problems += [
            f"{table}: {file.relative_to(path)} is in the table, but not in the folder" for file in listed - stored
        ]
    return Check("after vacuum the folders have exactly the files that delta-rs lists, and the log", tuple(problems))


def checkpoints_suffice(home: Home) -> Check:
    """delta-rs reads the same rows from a copy without the JSON commits up to the last checkpoint."""
    problems, checkpointed = [], []
    with readers.connect() as connection:
        for table in COLUMNS:
            path, copy = home.tables / table, home.scratch / table
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(path, copy)
            log = copy / "_delta_log"
            checkpoint = max((int(file.name[:20]) for file in log.glob("*.checkpoint*.parquet")), default=-1)
            if checkpoint < 0:
                continue
            checkpointed.append(table)
            for commit in log.glob("*.json"):
                if commit.stem.isdigit() and int(commit.stem) <= checkpoint:
                    commit.unlink()
            version = DeltaTable(str(path)).version()
            if readers.delta_rs(connection, copy, version) != readers.delta_rs(connection, path, version):
                problems.append(f"{table}: delta-rs reads other rows from checkpoint {checkpoint} than from the log")
            shutil.rmtree(copy)
    if not checkpointed:
        problems.append("no table has a checkpoint")
    return Check("delta-rs reads tables from their checkpoints, without older JSON commits", tuple(problems))


def erasure_is_complete(rows: Mapping[str, tuple[int, int]]) -> Check:
    """The customer had rows, and no file holds one of them."""
    problems = [f"{folder}: {after} rows are left on disk" for folder, (_, after) in rows.items() if after]
    if not any(before for before, _ in rows.values()):
        problems.append("the customer had no rows before the erasure, so this check proves nothing")
    return Check(
        "no row with a key of the erased customer is left in any table's file on disk, quarantine included",
        tuple(problems),
    )


def nothing_changed(
    versions: Mapping[str, int], versions_after: Mapping[str, int], runs: int, runs_after: int
) -> Check:
    """A load without new files makes no version and triggers no run."""
    problems = [
        f"{table} went from version {version} to {versions_after[table]}"
        for table, version in versions.items()
        if versions_after[table] != version
    ]
    if runs_after != runs:
        problems.append(f"the downstream DAG ran {runs_after - runs} more times")
    return Check("a second load without new files makes no version and triggers no run", tuple(problems))


def one_run_a_range(releases: Sequence[Release]) -> Check:
    """Every downstream run was triggered by an asset, each for another range of versions."""
    problems = [
        f"{release.run_id} is {release.run_type}; expected asset_triggered"
        for release in releases
        if release.run_type != "asset_triggered"
    ]
    if len(releases) != REPORTS_EXPECTED:
        problems.append(f"{len(releases)} runs; expected {REPORTS_EXPECTED}, for the load and for the erasure")
    for before, after in pairwise(sorted(releases, key=lambda release: release.first_version)):
        if after.first_version <= before.last_version:
            problems.append(f"{before.run_id} and {after.run_id} are both for version {after.first_version}")
    return Check("one downstream run for each new range of versions, triggered by an asset", tuple(problems))


def literal(predicate: str) -> object:
    """The value in `COLUMN = VALUE`, as Parquet statistics have it."""
    with duckdb.connect() as connection:
        row = connection.execute(f"select {predicate.partition('=')[2]}").fetchone()
    assert row is not None  # a query for a constant returns one row
    return row[0]


def _may_hold(file: Path, column: str, value: object) -> bool:
    metadata = pq.read_metadata(file)
    position = metadata.schema.to_arrow_schema().names.index(column)
    for group in range(metadata.num_row_groups):
        statistics = metadata.row_group(group).column(position).statistics
        if statistics is None or not statistics.has_min_max or statistics.min <= value <= statistics.max:
            return True
    return False


def _raw_table(connection: duckdb.DuckDBPyConnection, home: Home, table: str, faults: Faults) -> None:
    kinds = {name: _DUCKDB_TYPES.get(kind, kind.upper()) for name, kind in COLUMNS[table].items()}
    columns = ", ".join(f"'{name}': '{kind}'" for name, kind in kinds.items())
    keys = KEYS[table]
    connection.execute(
        f"create table {table} as select * from read_csv($1, header = true, columns = {{{columns}}})",  # noqa: S608
        [str(home.raw / f"{table}.csv")],
    )
    connection.execute(f"create table missing ({', '.join(f'{key} {kinds[key]}' for key in keys)})")
    missing = faults.missing_keys(table)
    values = [[key[position] for key in missing] for position in range(len(keys))]
    unnested = ", ".join(f"unnest(${position + 1})" for position in range(len(keys)))
    connection.execute(f"insert into missing select {unnested}", values)
    connection.execute(f"delete from {table} where ({', '.join(keys)}) in (from missing)")  # noqa: S608
    connection.execute("drop table missing")


def _forget(connection: duckdb.DuckDBPyConnection, person: Person) -> None:
    connection.execute("delete from customer where c_custkey = $1", [person.customer])
    connection.execute("delete from orders where o_custkey = $1", [person.customer])
    connection.execute("delete from lineitem where l_orderkey in (select unnest($1))", [list(person.orders)])


_Quarantined = tuple[object, ...]


def _as_quarantined(row: SpoiledRow) -> _Quarantined:
    kinds = COLUMNS[row.table].values()
    if row.column is None and row.rule is None:
        # The record could not be split into columns, so the quarantine has its text.
        values: tuple[str, ...] = row.values
    elif row.rule is None:
        values = row.values
    else:
        # The record was readable, so the quarantine has its typed values as text.
        values = tuple(_text(value, kind) for value, kind in zip(row.values, kinds, strict=True))
    return (row.file, row.line, row.column, row.reason, row.rule, values)


def _text(value: str, kind: str) -> str:
    return f"{Decimal(value):.2f}" if kind.startswith("decimal") else value


def _quarantined(path: Path, table: str) -> Iterable[_Quarantined]:
    rows = deltalake.DeltaTable(str(path)).to_pyarrow_table()
    names = list(COLUMNS[table])
    for row in rows.to_pylist():
        raw = row.get("_raw")
        values = tuple(row[name] for name in names) if raw is None else tuple(parse(raw.encode()))
        yield (row["_file"], row["_line"], row["_column"], row["_reason"], row["_rule"], values)


def _show(row: _Quarantined) -> str:
    file, line, column, reason, rule, values = row
    return f"{file} line {line}, column {column}, rule {rule}: {reason}; {values}"


def _tables(home: Home) -> list[Path]:
    return sorted(path.parent for path in home.tables.glob("*/_delta_log"))
