"""A written checkpoint has the content of its version, in bounded memory, whatever the checkpoint before it is."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse_lib.log import cache, file_names
from lakehouse_lib.log.checkpoint import write as writing
from lakehouse_lib.log.checkpoint import write_v2
from lakehouse_lib.log.checkpoint.columns import FILES, TOP, write_parquet
from lakehouse_lib.log.checkpoint.footer.bloom_filter import hashes_of, may_hold
from lakehouse_lib.log.checkpoint.footer.parquet_footer import bloom_bitset, chunk_statistics
from lakehouse_lib.log.checkpoint.parallel import map_in_order, read_ahead
from lakehouse_lib.log.checkpoint.write import write_checkpoint
from lakehouse_lib.log.last_checkpoint_hint import checksum, read_hint
from lakehouse_lib.protocol.actions import Protocol
from lakehouse_lib.snapshot import load_snapshot
from lakehouse_lib.store import LocalStore
from tests.checkpoint_files import put_classic
from tests.days_table import META, PARSED, file
from tests.days_table import PROTOCOL as DAYS_PROTOCOL
from tests.log_builder import METADATA, add, put, remove
from tests.peers import files_delta_rs

FEATURE = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["v2Checkpoint", "deletionVectors"],
    "writerFeatures": ["v2Checkpoint", "deletionVectors", "domainMetadata"],
}


def start(root: Path, policy: str) -> LocalStore:
    """A table without files, whose checkpoints follow this policy."""
    store = LocalStore(str(root), fsync=False)
    metadata = METADATA | {"configuration": {"delta.checkpointPolicy": policy}}
    put(store, 0, {"protocol": FEATURE}, {"metaData": metadata})
    return store


def vector(number: int) -> dict[str, object]:
    return {"storageType": "i", "pathOrInlineDv": f"dv{number}", "sizeInBytes": 4, "cardinality": number}


def state_of(store: LocalStore, version: int | None = None):
    """The content of a version, opened again."""
    cache.CACHE.clear()
    snapshot = load_snapshot(store, version)
    files = sorted(snapshot.files.to_pylist(), key=lambda row: row["path"])
    removed = sorted((row["path"], row["deletionTimestamp"]) for row in snapshot.tombstones.to_pylist())
    return files, removed, snapshot.transactions, snapshot.domains, snapshot.metadata, snapshot.protocol


# A commit: for each of some paths whether it is added (with or without a vector) or removed; and whether a
# checkpoint follows.
commits = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from("abcdefghijklmnop"), st.integers(-1, 2), max_size=9),
        st.booleans(),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("policy", ["classic", "v2"])
@given(commits=commits, kept_open=st.booleans())
@settings(max_examples=settings.default.max_examples // 10)  # each example writes a log and reads it by several readers
def test_checkpoints_have_the_state_of_the_commits(tmp_path_factory, policy, commits, kept_open):
    """Any history with checkpoints at any versions, each based on the previous checkpoint."""
    root = tmp_path_factory.mktemp("t")
    plain, store = start(root / "plain", policy), start(root / "checkpointed", policy)
    live: dict[str, dict[str, object] | None] = {}
    snapshot = load_snapshot(store)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write_v2, "FULL", 4)
        patch.setattr(f"{write_v2.plan_sidecars.__module__}._SMALL", 2)
        patch.setattr(writing, "_ROW_GROUP", 3)
        for version, (changes, checkpointed) in enumerate(commits, 1):
            actions = [{"txn": {"appId": "app", "version": version}}]
            for path, what in changes.items():
                if path in live:
                    old = live.pop(path)
                    more = {} if old is None else {"deletionVector": old}
                    actions.append(remove(path, deletionTimestamp=version, **more))
                if what >= 0:
                    live[path] = None if what == 0 else vector(what)
                    more = {} if what == 0 else {"deletionVector": vector(what)}
                    # A vector that the file had before cannot be added and removed in one commit.
                    actions = [a for a in actions if "remove" not in a or _key(a["remove"]) != (path, str(live[path]))]
                    actions.append(add(path, stats=json.dumps({"numRecords": version}), **more))
            put(plain, version, *actions)
            put(store, version, *actions)
            if checkpointed:
                snapshot = snapshot.update() if kept_open else load_snapshot(store)
                hint = write_checkpoint(store, version, snapshot.state, tombstones_since=-1)
                assert (hint.version, hint.num_of_add_files) == (version, len(live))
                # From here on only the checkpoint has the actions.
                store.delete_many([file_names.commit(number) for number in range(version)])
                assert state_of(store) == state_of(plain)
                assert read_hint(store) == version
    assert state_of(store) == state_of(plain)
    assert sorted(live) == [row["path"] for row in state_of(store)[0]]


def _key(body: dict[str, object]) -> tuple[object, str]:
    return body["path"], str(body.get("deletionVector"))


@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_fields_that_a_checkpoint_leaves_out(tmp_path, policy):
    store = start(tmp_path / "t", policy)
    put(store, 1, add("a", tags={"t": "1"}, stats='{"numRecords":1}'), add("b"))
    put(
        store,
        2,
        remove("a", deletionTimestamp=50, stats='{"numRecords":1}', tags={"t": "1"}, size=10),
        remove("old", deletionTimestamp=5),
        {"remove": {"path": "timeless", "dataChange": True}},
        {"domainMetadata": {"domain": "d", "configuration": "1", "removed": False}},
    )
    write_checkpoint(store, 2, load_snapshot(store).state, tombstones_since=10)
    store.delete_many([file_names.commit(0), file_names.commit(1)])
    files, removed, _, domains, _, protocol = state_of(store)
    assert [row["path"] for row in files] == ["b"]
    assert removed == [("a", 50)]
    assert list(domains) == ["d"]
    assert protocol == Protocol.from_json(FEATURE)
    paths = [meta.path for meta in [*store.list_from(file_names.LOG), *store.list_from(file_names.SIDECARS)]]
    leaves = {
        column.path
        for path in paths
        if path.endswith(".parquet")
        for column in map(pq.ParquetFile(io.BytesIO(store.read(path))).schema.column, range(30))
    }
    assert "add.stats" in leaves
    assert not leaves & {"remove.stats", "remove.tags.key_value.key", "commitInfo.timestamp"}


def test_a_policy_without_its_feature_is_classic(tmp_path):
    store = start(tmp_path / "t", "v2")
    state = load_snapshot(store).state
    write_checkpoint(store, 0, replace(state, protocol=Protocol(1, 2)), tombstones_since=0)
    assert store.head(file_names.checkpoint(0)) is not None
    assert not list(store.list_from(file_names.SIDECARS))


@pytest.mark.parametrize("statistics", [True, False])
def test_a_checkpoint_of_another_writer_is_rewritten(tmp_path, statistics):
    """Its row groups mix actions, and some files have statistics only as structs."""
    store = LocalStore(str(tmp_path / "t"), fsync=False)
    parsed = {"numRecords": 10, "minValues": {"id": 5}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}
    files = [file(number) for number in range(40)]
    for action in files[::3]:
        action["add"] |= {"stats": None, "stats_parsed": parsed}
    actions = [*files[:7], DAYS_PROTOCOL, remove("gone"), *files[7:], META]
    put(store, 1, {"txn": {"appId": "a", "version": 1}})
    put_classic(store, 1, actions, stats_parsed=PARSED, row_group=6, statistics=statistics)
    put(store, 2, remove("f005"), add("new"))
    expected = state_of(store)
    write_checkpoint(store, 2, load_snapshot(store).state, tombstones_since=-1)
    store.delete_many([file_names.commit(0), file_names.commit(1), file_names.checkpoint(1)])
    assert state_of(store) == expected
    assert len(expected[0]) == 40
    assert json.loads(expected[0][0]["stats"])["minValues"] == {"id": 5}


def test_row_groups_do_not_pile_up(tmp_path):
    """Many checkpoints are based on each other, and each adds few files."""
    store = start(tmp_path / "t", "classic")
    for version in range(1, 6):
        put(store, version, *(add(f"f{version}-{n}") for n in range(10)))
        write_checkpoint(store, version, load_snapshot(store).state, tombstones_since=0)
    footer = pq.ParquetFile(io.BytesIO(store.read(file_names.checkpoint(5)))).metadata
    assert footer.num_row_groups == 2
    assert footer.num_rows == 2 + 50


@pytest.mark.slow
def test_writing_loads_no_pandas(tmp_path):
    for policy in ("classic", "v2"):
        put(start(tmp_path / policy, policy), 1, add("a"), {"txn": {"appId": "x", "version": 1}})
    program = f"""
        import sys
        from lakehouse_lib.log.checkpoint.write import write_checkpoint
        from lakehouse_lib.snapshot import load_snapshot
        from lakehouse_lib.store import open_store
        for policy in ("classic", "v2"):
            store = open_store({str(tmp_path)!r} + "/" + policy)
            write_checkpoint(store, 1, load_snapshot(store).state, tombstones_since=0)
        assert "pandas" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True, timeout=60)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["classic", "v2"])
def test_memory_does_not_grow_with_the_table(tmp_path, policy):
    """A checkpoint of 40,000 files (30 MB) is based on another one, with only some row groups in memory."""
    store = start(tmp_path / policy, policy)
    padding = "x" * 600
    rows = [add(f"part-{n:06d}.parquet", stats=json.dumps({"numRecords": n, "pad": padding})) for n in range(1_000)]
    for version in range(1, 41):
        named = [{"add": row["add"] | {"path": f"{version}/{row['add']['path']}"}} for row in rows]
        put(store, version, *named)
    program = f"""
        import pyarrow as pa
        from lakehouse_lib.log.checkpoint import sidecars, write, write_v2
        from lakehouse_lib.log.checkpoint.write import write_checkpoint
        from lakehouse_lib.snapshot import load_snapshot
        from lakehouse_lib.store import open_store
        write._ROW_GROUP = write_v2.FULL = 1_000
        store = open_store({store.root!r})
        write_checkpoint(store, 40, load_snapshot(store, 40).state, tombstones_since=0)
    """
    _run(program)
    store.delete_many([file_names.commit(version) for version in range(40)])
    put(store, 41, *(remove(f"1/part-{n:06d}.parquet") for n in range(0, 1_000, 50)))
    # The sidecars also have a thousand files each. None is reused, so the test shows the maximum in memory.
    more = """
        from lakehouse_lib.log.checkpoint.sidecar_reuse import SidecarPlan
        write_v2.plan_sidecars = lambda sidecars, **_: SidecarPlan((), tuple(sidecars))
        write_checkpoint(store, 41, load_snapshot(store).state, tombstones_since=0)
        print(pa.default_memory_pool().max_memory())
    """
    peak = int(_run(program.replace("write_checkpoint(store, 40", "0 and write_checkpoint(store, 40") + more))
    assert peak < 15 << 20
    assert load_snapshot(store).checkpoint_version == 41
    assert load_snapshot(store).file_count == 40_000 - 20


def _run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout


def test_delta_rs_reads_the_statistics_that_were_written(tmp_path):
    from deltalake import DeltaTable as Peer

    store = start(tmp_path / "t", "classic")
    put(store, 0, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": METADATA})
    stats = {"numRecords": 3, "minValues": {"id": -7}, "maxValues": {"id": 1 << 40}, "nullCount": {"id": 1}}
    put(store, 1, add("a%20b", stats=json.dumps(stats)), add("c"))
    write_checkpoint(store, 1, load_snapshot(store).state, tombstones_since=0)
    store.delete_many([file_names.commit(0), file_names.commit(1)])
    assert files_delta_rs(store.root) == {Path(store.root, "a b"), Path(store.root, "c")}
    actions = {row["path"]: row for row in pa.table(Peer(store.root).get_add_actions(flatten=True)).to_pylist()}
    action = actions["a%20b"]
    assert (action["num_records"], action["min.id"], action["max.id"], action["null_count.id"]) == (3, -7, 1 << 40, 1)


# The functions that write it.


def test_the_checksum_is_that_of_the_protocols_example():
    text = (
        """{"k0":"'v 0'", "checksum": "adsaskfljadfkjadfkj", "k1":{"k2": 2, "k3": ["v3", [1, 2], """
        """{"k4": "v4", "k5": ["v5", "v6", "v7"]}]}}"""
    )
    assert checksum(text) == "6a92d155a59bf2eecbd4b4ec7fd1f875"


def test_a_hint_with_a_wrong_checksum_is_ignored(tmp_path):
    store = start(tmp_path / "t", "classic")
    write_checkpoint(store, 0, load_snapshot(store).state, tombstones_since=0)
    hint = json.loads(store.read(file_names.LAST_CHECKPOINT))
    assert hint["checksum"] == checksum(json.dumps(hint))
    store.put(file_names.LAST_CHECKPOINT, json.dumps(hint | {"version": 7}).encode())
    assert read_hint(store) is None
    store.put(file_names.LAST_CHECKPOINT, json.dumps({"version": 7}).encode())
    assert read_hint(store) == 7


@pytest.mark.parametrize(
    "text", ['{"a": 1, "a": 2}', "[1]", "7", '{"a": {"b": 1, "b": 2}}', "{", '{"version": 1, "checksum": 5}']
)
def test_a_hint_that_is_not_valid_is_ignored(text, tmp_path):
    store = LocalStore(str(tmp_path), fsync=False)
    store.put(file_names.LAST_CHECKPOINT, text.encode())
    assert read_hint(store) is None


@pytest.mark.parametrize("schema", [TOP, FILES, writing.CLASSIC])
def test_every_leaf_is_named_as_parquet_names_it(schema):
    """A column that is requested by another name would silently be written with the default encoding."""
    sink = io.BytesIO()
    nothing = pa.Table.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)
    write_parquet(sink, schema, [nothing], row_group=1)
    footer = pq.ParquetFile(sink).metadata
    columns = [footer.row_group(0).column(index) for index in range(footer.num_columns)]
    without = {column.path_in_schema for column in columns if column.statistics is None}
    assert without == {"add.stats"}
    repeated = {column.path_in_schema for column in columns if "RLE_DICTIONARY" in column.encodings}
    assert {"add.partitionValues.key_value.key", "add.clusteringProvider"} <= repeated
    assert not repeated & {"add.path", "add.stats", "add.size"}


@given(texts=st.lists(st.text(max_size=100), min_size=1, max_size=30, unique=True), data=st.data())
def test_bloom_filters_are_read_as_arrow_writes_them(texts, data):
    stored = data.draw(st.lists(st.sampled_from(texts), unique=True, min_size=1))
    sink = io.BytesIO()
    options = {"t": {"ndv": 64, "fpp": 1e-6}}
    with pq.ParquetWriter(sink, pa.schema([("t", pa.string())]), bloom_filter_options=options) as writer:
        writer.write_table(pa.table({"t": stored}))
    footer = pq.ParquetFile(sink).metadata
    offset, length = chunk_statistics(footer)[0][0].bloom
    answers = may_hold(bloom_bitset(sink.getvalue()[offset : offset + length]), hashes_of(pa.array(texts)))
    expected = [text in stored for text in texts]
    assert all(answer for answer, has in zip(answers, expected, strict=True) if has)
    assert sum(answers) <= sum(expected) + 1


def test_too_many_lengths_are_not_looked_up():
    assert hashes_of(pa.array(["x" * length for length in range(1000)])) is None


def test_a_truncated_bloom_filter_is_an_error():
    for corrupted in (b"", b"\x15", b"\x15\x80\x80\x01\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x1c\x1c\x00\x00\x00"):
        with pytest.raises(ValueError, match="Bloom"):
            bloom_bitset(corrupted)
    assert bloom_bitset(b"\x15\x40\x00" + bytes(32)) is None  # an unknown algorithm


def test_results_come_in_order_and_not_ahead_of_the_caller():
    begun = []

    def work(number: int) -> int:
        begun.append(number)
        return number

    results = map_in_order(work, iter(range(100)))
    assert next(results) == 0
    assert len(begun) < 20
    assert list(results) == list(range(1, 100))
    assert list(read_ahead(iter(range(10)), 3)) == list(range(10))
    with pytest.raises(ZeroDivisionError):
        list(read_ahead((1 // number for number in [1, 0, 1]), 3))
    with pytest.raises(ZeroDivisionError):
        list(map_in_order(lambda number: 1 // number, iter([1, 0, 1])))
