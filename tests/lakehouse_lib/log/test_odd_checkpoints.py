"""Checkpoints with columns of other types than in the protocol: ignored, or refused with an error of the library."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.log import file_names
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from tests.checkpoint_files import put_classic
from tests.days_table import META, PROTOCOL, file
from tests.log_builder import put
from tests.table_builder import paths_of

ODD = {"text": "odd", "number": 1, "list": ["odd"], "struct": {"odd": 1}}


def retyped(data: bytes, field: str, value: object) -> bytes:
    """The checkpoint with this value in place of a field of each add."""
    table = pq.read_table(pa.BufferReader(data))
    adds = table["add"].combine_chunks()
    columns = {member.name: adds.field(index) for index, member in enumerate(adds.type)}
    columns[field] = pa.array([value] * len(adds))
    changed = pa.StructArray.from_arrays(list(columns.values()), list(columns), mask=adds.is_null())
    sink = pa.BufferOutputStream()
    pq.write_table(table.set_column(table.column_names.index("add"), "add", changed), sink)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ("deletionVector", "text"),
        ("deletionVector", "number"),
        ("deletionVector", "list"),
        ("partitionValues", "text"),
        ("partitionValues", "struct"),
        ("size", "text"),
        ("size", "list"),
        ("stats", "struct"),
        ("tags", "list"),
    ],
)
def test_a_field_of_another_type_makes_no_checkpoint(tmp_path: Path, field: str, kind: str) -> None:
    store = LocalStore(str(tmp_path), fsync=False)
    actions = [PROTOCOL, META, file(1), file(2)]
    put(store, 0, *actions)
    path = put_classic(store, 0, actions)
    store.put(path, retyped(store.read(path), field, ODD[kind]))
    snapshot = load_snapshot(store)
    assert snapshot.checkpoint_version == 0
    assert paths_of(snapshot) == ["f001", "f002"]
    assert snapshot.checkpoint_version is None
    # If only the checkpoint has the version, it causes the error.
    put(store, 1, {"commitInfo": {}})
    store.delete_many([file_names.commit(0)])
    with pytest.raises(LogCorruptedError, match="cannot be read"):
        _ = load_snapshot(store).files


@pytest.mark.parametrize("lacking", ["protocol", "metaData", "every action"])
def test_a_checkpoint_without_protocol_or_metadata_makes_no_checkpoint(tmp_path: Path, lacking: str) -> None:
    store = LocalStore(str(tmp_path), fsync=False)
    actions = [PROTOCOL, META, file(1)]
    put(store, 0, *actions)
    path = put_classic(store, 0, actions)
    rows = pq.read_table(tmp_path / path)
    pq.write_table(rows[:0] if lacking == "every action" else rows.filter(rows[lacking].is_null()), tmp_path / path)
    snapshot = load_snapshot(store)
    assert (snapshot.checkpoint_version, paths_of(snapshot)) == (None, ["f001"])
    put(store, 1, {"commitInfo": {}})
    store.delete_many([file_names.commit(0)])
    with pytest.raises(LogCorruptedError, match=r"cannot be read \(it has no (protocol|metaData) action\)"):
        load_snapshot(store)


def test_a_removed_domain_may_have_no_configuration(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path), fsync=False)
    removed_domain = {"domainMetadata": {"domain": "d", "configuration": None, "removed": True}}
    live_domain = {"domainMetadata": {"domain": "e", "configuration": "{}", "removed": False}}
    put_classic(store, 0, [PROTOCOL, META, file(1), removed_domain, live_domain])
    snapshot = load_snapshot(store)
    assert (list(snapshot.state.domains), paths_of(snapshot)) == (["e"], ["f001"])
