"""Deletes from several tables in one application: in order, and told as far as they have come."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakehouse_lib.errors import DeltaProtocolError
from spark_jobs.erase import arguments, prepare
from spark_jobs.job import FailedAfterWork


def test_the_first_delete_that_fails_is_the_last_one(spark: Any, tmp_path: Path) -> None:
    tables = [str(tmp_path / name) for name in ("first", "kept", "last")]
    for table in tables:
        properties = {"delta.appendOnly": "true"} if table.endswith("kept") else {}
        write_deltalake(table, pa.table({"a": [1, 2, 3]}), configuration=properties)
    file = tmp_path / "deletes.json"
    file.write_text(json.dumps([{"table": table, "predicate": "a = 2"} for table in tables]))
    run = prepare(arguments().parse_args(["--deletes-file", str(file)]))
    assert callable(run)
    with pytest.raises(FailedAfterWork) as failure:
        run(spark)
    assert isinstance(failure.value.error, DeltaProtocolError)
    (done,) = failure.value.result["tables"]
    assert (done["table"], done["version"], done["metrics"]["num_deleted_rows"]) == (tables[0], 1, 1)
    assert [DeltaTable(table).version() for table in tables] == [1, 0, 0]

    # Again, once the table may lose rows: what is done is not done twice.
    file.write_text(json.dumps([{"table": table, "predicate": "a = 2"} for table in (tables[0], tables[2])]))
    run = prepare(arguments().parse_args(["--deletes-file", str(file)]))
    assert callable(run)
    assert [one["version"] for one in run(spark)["tables"]] == [1, 1]
    assert DeltaTable(tables[2]).to_pyarrow_table()["a"].to_pylist() == [1, 3]
