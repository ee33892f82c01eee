"""repair() of a log with paths that no file can have."""

import pytest

from lakehouse_lib import DeltaTable
from lakehouse_lib.errors import PathOutsideTableError
from tests.log_builder import Log


def vector_at(path):
    vector = {"storageType": "p", "pathOrInlineDv": path, "offset": 1, "sizeInBytes": 40, "cardinality": 1}
    return {"deletionVector": vector}


@pytest.mark.parametrize("path", ["\0", "/x\0y", "file:///x%00y"])
def test_a_vector_whose_path_has_a_nul_is_missing(tmp_path, path):
    log = Log(tmp_path)
    log.file("f", [1, 2, 3])
    log.commit(log.add("f", **vector_at(path)))
    table = DeltaTable(tmp_path)
    assert table.repair()["vectors_missing"] == ["f"]
    with pytest.raises(PathOutsideTableError, match=r"x00|%00"):
        table.to_pyarrow_table()


@pytest.mark.parametrize("path", ["a\0b", "a%00b"])
def test_a_data_file_whose_path_has_a_nul_is_missing(tmp_path, path):
    log = Log(tmp_path)
    log.file("f", [1, 2, 3])
    add = log.add("f")
    add["add"]["path"] = path
    log.commit(add)
    table = DeltaTable(tmp_path)
    assert table.repair()["files_removed"] == [path]
    with pytest.raises(PathOutsideTableError, match=r"x00|%00"):
        table.file_uris()
