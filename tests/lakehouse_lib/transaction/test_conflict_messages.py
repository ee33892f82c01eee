"""A conflict's error has the winning commit, the overlap and a hint, in a few lines even with long names."""

import json
from dataclasses import replace

import pytest

from lakehouse_lib.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
    TooManyRetriesError,
)
from lakehouse_lib.expressions import parse
from lakehouse_lib.protocol.actions import DomainMetadata, Metadata, Protocol
from lakehouse_lib.store import LocalStore
from lakehouse_lib.transaction import optimistic_transaction
from lakehouse_lib.transaction.conflicts.messages import metadata_change
from tests.log_builder import METADATA, SCHEMA, add, field, put, struct
from tests.table_builder import append, begin, create, files


def loser_of(snapshot, winner, loser):
    """The error of one transaction after the other was committed."""
    winning, losing = begin(snapshot, "WINNER"), begin(snapshot)
    winner(winning)
    loser(losing)
    winning.commit()
    error = losing.commit().error
    text = str(error)
    assert f"WINNER of version {snapshot.version + 1} " in text
    assert f"(table {snapshot.store.root}, version {snapshot.version + 1}). Nothing was changed; " in text
    assert len(text) < 1500
    return error


def schema(*columns):
    """A schema of columns given as (name, type) or (name, type, id)."""
    fields = [field(name, kind, **({"id": number[0]} if number else {})) for name, kind, *number in columns]
    return json.dumps(struct(*fields))


BEFORE = Metadata("t", schema(("id", "long", 1), ("p", "string", 2)), ("p",), {"a": "1", "delta.b": "2"})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"id": "u"}, "changed the table's id from 't' to 'u'"),
        ({"configuration": {"a": "1", "delta.appendOnly": "true"}}, "set 'delta.appendOnly', unset 'delta.b'"),
        ({"configuration": {"a": "9", "delta.b": "2"}}, "set 'a'"),
        ({"schema_string": schema(("id", "long", 1), ("p", "string", 2), ("n", "long", 3))}, "added the column 'n'"),
        ({"schema_string": schema(("p", "string", 2))}, "dropped the column 'id'"),
        ({"schema_string": schema(("key", "long", 1), ("p", "string", 2))}, "renamed 'id' to 'key'"),
        ({"schema_string": schema(("id", "string", 1), ("p", "string", 2))}, "changed the column 'id'"),
        ({"schema_string": schema(("p", "string", 2), ("id", "long", 1))}, "changed the order of the columns"),
        ({"schema_string": "torn"}, "changed the schema"),
        ({"partition_columns": ()}, "changed the partitioning from ('p') to ()"),
        ({"name": "n", "description": "d"}, "changed the table's name to 'n', changed the table's description to 'd'"),
        ({"format_provider": "orc"}, "changed the format of the files"),
        ({}, "wrote the same metadata again"),
    ],
)
def test_the_message_of_a_metadata_conflict_names_the_changes(change, said):
    assert metadata_change(BEFORE, replace(BEFORE, **change)) == said


def test_many_columns_are_a_few_lines():
    wide = schema(*[(f"column {'x' * 300} {number}", "long") for number in range(5000)])
    said = metadata_change(replace(BEFORE, schema_string=schema()), replace(BEFORE, schema_string=wide))
    assert "and 4992 more" in said
    assert len(said) < 1200


def test_metadata(tmp_path):
    snapshot = create(tmp_path / "t")
    changed = Metadata("t", SCHEMA, configuration={"delta.appendOnly": "true"})
    error = loser_of(
        snapshot, lambda transaction: transaction.set_metadata(changed), lambda transaction: transaction.add(files("a"))
    )
    assert isinstance(error, MetadataChangedError)
    assert "set 'delta.appendOnly'" in str(error)
    assert "still fits it" in error.hint


def test_protocol(tmp_path):
    newer = Protocol(1, 7, None, frozenset(["appendOnly", "invariants"]))
    error = loser_of(
        create(tmp_path / "t"),
        lambda transaction: transaction.set_protocol(newer),
        lambda transaction: transaction.set_protocol(Protocol(1, 3)),
    )
    assert isinstance(error, ProtocolChangedError)
    assert "from reader 1, writer 2 to reader 1, writer 7 ('appendOnly', 'invariants')" in str(error)


def test_the_message_of_added_rows(tmp_path):
    snapshot = create(tmp_path / "t")
    wide = parse(" or ".join(f"id = {number}" for number in range(300)), snapshot.schema)
    loser = lambda transaction: (transaction.read(wide), transaction.add(files("b")))  # noqa: E731
    error = loser_of(snapshot, lambda transaction: transaction.add(files("a")), loser)
    assert isinstance(error, ConcurrentAppendError)
    assert "the predicate id = 0 or id = 1 or" in str(error)


@pytest.mark.parametrize(("sql", "said"), [("id = 1", "the predicate id = 1"), (None, "the whole table")])
def test_the_message_of_removed_files_that_were_read(tmp_path, sql, said):
    snapshot = append(create(tmp_path / "t"), "a", "b", "c")
    predicate = None if sql is None else parse(sql, snapshot.schema)
    error = loser_of(
        snapshot,
        lambda transaction: transaction.remove(files("a", "b")),
        lambda transaction: transaction.read(predicate),
    )
    assert isinstance(error, ConcurrentDeleteReadError)
    assert f"removed 2 files that this transaction read ({said})" in str(error)


@pytest.mark.parametrize(
    ("winner_version", "hint"), [(4, "run it again"), (5, "go on with its next"), (6, "go on with its next")]
)
@pytest.mark.parametrize("name", ["app", "x" * 10_240])
def test_the_message_of_a_concurrent_application_transaction(tmp_path, winner_version, hint, name):
    error = loser_of(
        create(tmp_path / "t"),
        lambda transaction: transaction.set_transaction(name, winner_version),
        lambda transaction: transaction.set_transaction(name, 5),
    )
    assert isinstance(error, ConcurrentTransactionError)
    assert f"has version {winner_version} of the application '{name[:3]}" in str(error)
    assert "this transaction writes version 5" in str(error)
    assert hint in error.hint


def test_the_message_of_a_concurrent_domain(tmp_path):
    domain = DomainMetadata("d" * 10_240, "{}")
    snapshot = create(tmp_path / "t", protocol=Protocol(1, 7, None, frozenset(["domainMetadata"])))
    error = loser_of(
        snapshot, lambda transaction: transaction.set_domain(domain), lambda transaction: transaction.set_domain(domain)
    )
    assert isinstance(error, ConcurrentTransactionError)
    assert "wrote the domain 'ddd" in str(error)


def test_a_winner_without_a_commit_info(tmp_path):
    snapshot = create(tmp_path / "t")
    loser = begin(snapshot)
    put(tmp_path / "t", 1, {"metaData": METADATA | {"id": "u"}})
    assert "a commit of version 1 changed the table's id from 't' to 'u'" in str(loser.commit().error)


def test_a_commit_has_ten_minutes(tmp_path, monkeypatch):
    snapshot = create(tmp_path / "t")
    clock = [0.0]
    monkeypatch.setattr(optimistic_transaction.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(optimistic_transaction.time, "sleep", lambda _: None)

    def late(self, path, data):
        clock[0] += 250
        put(tmp_path / "t", int(path[-25:-5]), add(path[-25:-5]))
        return False

    monkeypatch.setattr(LocalStore, "put_if_absent", late)
    loser = begin(snapshot, adds=["a"])
    error = loser.commit().error
    assert isinstance(error, TooManyRetriesError)
    assert "3 attempts lost the race to other writers in the 600 seconds that a commit may take" in str(error)
    assert "More retries would not help" in error.hint
