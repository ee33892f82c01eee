from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakehouse_lib.ingestion.sources.json.reader import read_json
from lakehouse_lib.ingestion.sources.source_format import SourceFormat
from tests.landed_files import landed

SCHEMA = pa.schema([("id", pa.int64()), ("note", pa.string())])


@pytest.mark.slow
def test_line_of_any_depth_goes_to_quarantine(tmp_path: Path) -> None:
    """Python can parse JSON of a depth that it cannot write; the depth depends on the call stack."""
    depths = range(900, 1100)
    for start, end in ("[]", "{}"):
        opening = '{"k":' if start == "{" else "["
        lines = [f'{{"id": 1, "note": {opening * depth}1{end * depth}}}' for depth in depths]
        path = tmp_path / "a.json"
        path.write_text("\n".join([*lines, '{"id": 2}']))
        block = next(read_json(landed(path), SourceFormat("json"), SCHEMA))()
        ((name, reason, nested),) = block.checks
        assert (name, reason) == ("note", "not a plain value")
        assert int(nested.sum()) + len(block.faulty.lines) == len(depths)
        assert set(block.faulty.reasons) <= {"not valid JSON"}
        assert block.texts[0].to_pylist()[-1] == "2"


@pytest.mark.parametrize("line", ['{"id": 1, "id": 2}', '{"id": 1, "note": {"a": 1, "a": 1}}'])
def test_a_row_with_a_duplicate_key_is_rejected(tmp_path: Path, line: str) -> None:
    (tmp_path / "a.json").write_text(f'{line}\n{{"id": 3, "note": "a: b"}}\n')
    block = next(read_json(landed(tmp_path / "a.json"), SourceFormat("json"), SCHEMA))()
    assert [column.to_pylist() for column in block.columns] == [[3], ["a: b"]]
    assert block.lines().to_pylist() == [1]
    faulty = block.rest.faulty
    assert (faulty.lines, faulty.reasons, faulty.raw) == ([0], ["a key more than once"], [line])
