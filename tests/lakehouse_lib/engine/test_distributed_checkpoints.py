"""Checkpoints that are broken, replaced meanwhile, or stored otherwise, as a snapshot in buckets meets them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.engine.distributed_snapshot import distribute
from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.snapshot import load_snapshot
from tests.checkpoint_files import put_classic
from tests.replayed_log import HEAD, Log, assert_alike


def test_a_broken_checkpoint_is_passed_over(tmp_path):
    log = Log(tmp_path)
    log.commit("aaaa")
    log.checkpoint("classic")
    log.commit("r..a")
    [path] = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    path.write_bytes(b"PAR1 is not all there is to it")
    assert_alike(load_snapshot(log.store), ArrowEngine())


def test_a_broken_checkpoint_is_passed_over_for_a_good_one_of_the_same_version(tmp_path):
    log = Log(tmp_path)
    log.commit("aaaa")
    log.checkpoint("v2-parquet")
    broken = tmp_path / "_delta_log" / f"{log.version:020}.checkpoint.parquet"  # which is taken first
    broken.write_bytes(b"PAR1 is not all there is to it")
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    log.commit("r..a")
    assert_alike(load_snapshot(log.store), ArrowEngine())


def test_a_log_without_a_checkpoint_that_can_be_read_says_which_cannot(tmp_path):
    log = Log(tmp_path)
    log.commit("aaaa")
    log.checkpoint("classic")
    snapshot = load_snapshot(log.store)
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    [path] = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    path.write_bytes(b"PAR1 is not all there is to it")
    with pytest.raises(LogCorruptedError, match=path.name), distribute(snapshot, ArrowEngine()):
        pass


@pytest.mark.parametrize(("before", "after"), [(100, 3), (3, 100), (3, None)])
@pytest.mark.parametrize("is_once", [True, False])
def test_a_checkpoint_that_is_replaced_meanwhile_loses_no_file(tmp_path, before, after, is_once):
    """Row groups are numbered by the driver, and read by tasks that open the object themselves. The second time all is
    planned anew, and what goes on changing is told."""
    log = Log(tmp_path)
    log.commit("a" * 9)
    actions = [*HEAD, *({"add": body} for body in log.live.values())]
    path = tmp_path / put_classic(log.store, log.version, actions, row_group=before)

    class Slow(ArrowEngine):
        times = 0

        def exchange(self, *arguments):
            self.times += 1
            if not is_once or self.times == 1:
                put_classic(log.store, log.version, actions, row_group=after or before)
                if after is None:
                    path.unlink()
            return super().exchange(*arguments)

    snapshot, slow = load_snapshot(log.store), Slow(2)
    if is_once or after is None:  # the commits are there
        with distribute(snapshot, slow) as distributed:
            assert sorted(distributed.prune(None)["path"].to_pylist()) == sorted(snapshot.files["path"].to_pylist())
        assert slow.times == 2
        return
    with pytest.raises(LogCorruptedError, match=r"replaced since.*Open the table again"), distribute(snapshot, slow):
        pass
    assert slow.times == 3


def stored_otherwise(path, change):
    """Rewrite a checkpoint, each field of ``add`` changed."""
    table = pq.ParquetFile(path).read()
    adds = table["add"].combine_chunks()
    names = [field.name for field in adds.type]
    fields = [change(name, adds.field(number)) for number, name in enumerate(names)]
    index = table.column_names.index("add")
    pq.write_table(table.set_column(index, "add", pa.StructArray.from_arrays(fields, names, mask=adds.is_null())), path)


def large_strings(_name, column):
    return column.cast(pa.large_string()) if column.type == pa.string() else column


def encoded_paths(name, column):
    return column.dictionary_encode() if name == "path" else column


def members_turned_round(name, column):
    if name != "deletionVector":
        return column
    members = [field.name for field in column.type][::-1]
    return pa.StructArray.from_arrays([column.field(member) for member in members], members, mask=column.is_null())


@pytest.mark.parametrize("change", [large_strings, encoded_paths, members_turned_round])
def test_a_checkpoint_in_other_types_meets_its_commits(tmp_path, change):
    log = Log(tmp_path)
    log.commit("aaaaaaaaa")
    log.commit("ddd......")
    log.checkpoint("classic")
    [path] = (tmp_path / "_delta_log").glob("*.checkpoint.parquet")
    stored_otherwise(path, change)
    log.commit("rd.rrd..w")
    assert_alike(load_snapshot(log.store), ArrowEngine(16))
