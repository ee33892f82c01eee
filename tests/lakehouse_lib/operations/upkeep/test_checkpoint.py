"""Checkpoints on request."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse_lib import DeltaTable, UnsupportedFeatureError
from tests.log_builder import METADATA, add, put


def test_an_unknown_writer_feature_is_refused(tmp_path: Path) -> None:
    # The feature's actions are unknown too. A checkpoint would lack them, and log cleanup would then lose them.
    put(tmp_path, 0)
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["newThing"]}
    put(tmp_path, 1, {"protocol": protocol}, {"metaData": METADATA}, add("a"), {"newThing": {"keep": "me"}})
    with pytest.raises(UnsupportedFeatureError, match="newThing"):
        DeltaTable(tmp_path).create_checkpoint()
    assert not list((tmp_path / "_delta_log").glob("*checkpoint*"))
