"""Each verb has the conflicts that the table of docs/transactions.md gives for its transaction."""

import shutil
from importlib import import_module

import pyarrow as pa
import pytest

from lakehouse_lib import CommitProperties, DeltaTable, Field, Schema, Transaction, write_deltalake
from lakehouse_lib.errors import CommitFailedError
from lakehouse_lib.operations.dml import row_change
from lakehouse_lib.operations.write import identity_values
from lakehouse_lib.transaction import OptimisticTransaction
from tests.slow_cases import some_slow

pages = import_module("docs.conflict_table")
NUMBER = Field(
    "number",
    "long",
    metadata={
        "delta.identity.start": 1,
        "delta.identity.step": 1,
        "delta.identity.allowExplicitInsert": True,
    },
)
A, B = [1, 2, 3, 4, 5, 6, 8, 9, 10], list(range(11, 21))


def rows(part, ids, v=1):
    return pa.table({"part": [part] * len(ids), "id": ids, "v": [v] * len(ids), "number": ids})


def merge(table, source):
    return table.merge(source, "t.id = s.id", source_alias="s", target_alias="t")


def add_batch(table):
    properties = CommitProperties(app_transactions=[Transaction("stream", 1)])
    write_deltalake(table, rows("b", B), mode="append", commit_properties=properties)


#: Operation of the table -> the verb that makes it. Version 2 has two files in *a* and none in *b*.
VERBS = {
    "append": lambda t: write_deltalake(t, rows("a", A), mode="append"),
    "numbered append": lambda t: write_deltalake(t, rows("a", A).drop_columns("number"), mode="append"),
    "restore": lambda t: t.restore(2),
    "merge new ids": lambda t: (
        merge(t, rows("b", [21, 22, 23, 24, 25]))
        .when_matched_update_all(except_cols=["number"])
        .when_not_matched_insert_all()
        .execute()
    ),
    "add a constraint": lambda t: t.alter.add_constraint({"no_7": "id <> 7"}),
    "merge ids 1 to 5": lambda t: (
        merge(t, rows("a", [1, 2, 3, 4, 5])).when_matched_update_all(except_cols=["number"]).execute()
    ),
    "update *a*": lambda t: t.update({"v": "v + 1"}, predicate="part = 'a'"),
    "update *b*": lambda t: t.update({"v": "v + 1"}, predicate="part = 'b'"),
    "update id > 10": lambda t: t.update({"v": "v + 1"}, predicate="id > 10"),
    "replaceWhere *a*": lambda t: write_deltalake(t, rows("a", A), mode="overwrite", predicate="part = 'a'"),
    "replacePartitions *a*": lambda t: write_deltalake(
        t, rows("a", A), mode="overwrite", partition_overwrite_mode="dynamic"
    ),
    "overwrite": lambda t: write_deltalake(t, rows("a", A), mode="overwrite"),
    "stream's batch": add_batch,
    "set upkeep": lambda t: t.alter.set_table_properties({"delta.checkpointInterval": "20"}),
    "set appendOnly": lambda t: t.alter.set_table_properties({"delta.appendOnly": "true"}),
    "add a column": lambda t: t.alter.add_columns([Field("more", "long")]),
}


@pytest.fixture(scope="module", params=some_slow(pages.LEVELS, 1))
def table(request, tmp_path_factory):
    """A table like that of ``pages.create``, with some versions before it."""
    path = tmp_path_factory.mktemp(request.param)
    properties = {"delta.isolationLevel": request.param, "delta.minWriterVersion": "7"}
    fields = [Field("part", "string"), Field("id", "long"), Field("v", "long"), NUMBER]
    DeltaTable.create(path, Schema(fields), partition_by=["part"], configuration=properties)
    write_deltalake(path, rows("a", A), mode="append")
    write_deltalake(path, rows("a", A, v=2), mode="append")
    DeltaTable(path).delete("v = 2")
    write_deltalake(path, rows("b", B), mode="append")
    return path, request.param


@pytest.mark.parametrize("winner", some_slow(list(VERBS), 1))
def test_verbs_have_the_conflicts_of_the_table(table, tmp_path, monkeypatch, winner):
    path, level = table
    monkeypatch.setattr(row_change, "_ROUNDS", 1)
    monkeypatch.setattr(identity_values, "_ROUNDS", 1)
    operation = pages.OPERATIONS[winner]
    expected = {
        loser: pages.outcome(tmp_path / "transactions" / str(number), level, operation, pages.OPERATIONS[loser])
        for number, loser in enumerate(VERBS)
    }
    assert {loser: raced(path, tmp_path / loser, winner, loser) for loser in VERBS} == expected


def raced(path, copy, winner, loser):
    """The name of the error of a verb before whose commit another verb commits; "" if both are committed."""
    shutil.copytree(path, copy)
    commit = OptimisticTransaction.commit

    def second(transaction, properties=None):
        patch.undo()
        VERBS[winner](DeltaTable(copy))
        return commit(transaction, properties)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OptimisticTransaction, "commit", second)
        try:
            VERBS[loser](DeltaTable(copy))
        except CommitFailedError as error:
            return type(error).__name__
    return ""
