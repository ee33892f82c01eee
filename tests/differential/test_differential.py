"""Some random sequences of verbs beside delta-rs, on both engines; ``make differential`` runs ten thousand."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest

from lakehouse_lib.engine.base import Engine
from lakehouse_lib.engine.parquet.change_files import CHANGED_ROWS_SCHEMA
from lakehouse_lib.operations.dml.change_data import ChangeData
from tests.differential.sequences import Outcome, run_sequence
from tests.slow_cases import some_slow


# In seed 8524, delta-rs leaves out the image of a changed row that equals another row.
@pytest.mark.parametrize("seed", [*some_slow(range(20), 1), pytest.param(8524, marks=pytest.mark.slow)])
def test_sequences_beside_delta_rs(tmp_path: Path, seed: int) -> None:
    assert outcome_of(seed, tmp_path).difference == ""


@pytest.mark.parametrize("seed", some_slow(range(100, 104), 1))
def test_sequences_on_both_engines(tmp_path: Path, seed: int, engine: Engine) -> None:
    assert outcome_of(seed, tmp_path, engine).difference == ""


def test_a_lost_row_is_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakehouse_lib.operations.dml import update

    monkeypatch.setattr(
        update._Update,
        "match",
        lambda self, snapshot, files, metadata: update.MatchedRows(
            update.live_matches(files, self.matches(snapshot, files), snapshot)[0], CHANGED_ROWS_SCHEMA.empty_table()
        ),
    )
    assert any("only in table 1" in outcome_of(seed, tmp_path / str(seed)).difference for seed in range(12))


@pytest.mark.slow
@pytest.mark.parametrize("change", ["update_preimage", "update_postimage", "insert", "delete"])
def test_a_lost_change_is_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str) -> None:
    add = ChangeData.add
    monkeypatch.setattr(
        ChangeData, "add", lambda self, changed: add(self, changed.filter(pc.not_equal(changed["change"], change)))
    )
    assert any("the feed has" in outcome_of(seed, tmp_path / str(seed)).difference for seed in range(100, 120))


def outcome_of(seed: int, folder: Path, engine: Engine | None = None) -> Outcome:
    folder.mkdir(exist_ok=True)
    return run_sequence(seed, folder, engine=engine)
