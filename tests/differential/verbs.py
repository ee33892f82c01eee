"""Random verbs with their arguments, as values that each library runs in its own way."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

KINDS = {"id": pa.int64(), "part": pa.string(), "name": pa.string(), "amount": pa.float64(), "day": pa.date32()}
PARTS = ["a", "b", "c/d e", None]
CONDITIONS = [
    "id < 40",
    "id >= 100 AND id < 140",
    "id IN (3, 5, 77, 120)",
    "part = 'a'",
    "part IS NULL",
    "name LIKE 'n1%'",
    "amount > 10.5",
    "amount IS NULL OR id = 7",
    "day >= '2024-03-01'",
    "id % 7 = 2",
]
VALUES = [
    {"amount": "amount * 2"},
    {"name": "name || '+' || part"},
    {"part": "'b'"},
    {"id": "id + 1", "amount": "amount - 1"},
    {"name": "coalesce(name, 'none')", "day": "CAST('2024-05-05' AS DATE)"},
]
CLAUSES: list[tuple[str, dict[str, Any]]] = [
    ("when_matched_update_all", {}),
    ("when_matched_update_all", {"except_cols": ["amount", "day"]}),
    ("when_matched_update", {"updates": {"amount": "target.amount + source.amount"}}),
    ("when_matched_update", {"updates": {"name": "source.name"}, "predicate": "source.amount > 20"}),
    ("when_matched_delete", {"predicate": "source.id % 3 = 0"}),
    ("when_matched_delete", {}),
    ("when_not_matched_insert_all", {}),
    ("when_not_matched_insert_all", {"predicate": "source.id < 150"}),
    ("when_not_matched_insert_all", {"except_cols": ["name"]}),
    ("when_not_matched_insert", {"updates": {"id": "source.id", "part": "source.part"}}),
    ("when_not_matched_by_source_delete", {"predicate": "target.id % 11 = 1"}),
    ("when_not_matched_by_source_update", {"updates": {"amount": "0.0"}, "predicate": "target.id % 13 = 2"}),
]
#: The first clause of a merge that adds a column. If no clause updates a matched row, its new column is NULL. delta-rs
#: assigns the source's value, if it rewrites the file.
WIDENING_CLAUSE: tuple[str, dict[str, Any]] = ("when_matched_update_all", {})
#: The other clauses of such a merge. A clause that names columns leaves the new column as it is. delta-rs assigns the
#: source's value to the new column.
BESIDE_WIDENING = [
    (method, arguments) for method, arguments in CLAUSES if not arguments.keys() & {"updates", "except_cols"}
]
#: Conditions for which the data of a replaceWhere is made, with the values that make them true.
REPLACED: list[tuple[str, dict[str, Any]]] = [
    ("part = 'a'", {"part": "a"}),
    ("id >= 60 AND id < 80", {"id": range(60, 80)}),
    ("part = 'b' AND id < 30", {"part": "b", "id": range(30)}),
    ("name = 'n5'", {"name": "n5"}),
]
VERBS = [
    "append",
    "wider append",
    "delete",
    "update",
    "merge",
    "replace",
    "overwrite",
    "compact",
    "z_order",
    "checkpoint",
    "restore",
    "vacuum",
]


@dataclass(frozen=True)
class Verb:
    """A verb of ``VERBS`` with its arguments.

    Attributes:
        rows: the data of a write, or the source of a merge.
        condition: of a delete, an update or a replace; the ON of a merge, with the aliases ``target`` and ``source``.
        values: of an update.
        clauses: of a merge, in the form of ``CLAUSES``.
        merge_schema: whether a merge adds the columns that only the source has.
        state: of a restore: the position of a version in those that were noted; None: the latest version.
    """

    name: str
    rows: pa.Table | None = None
    condition: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    clauses: Sequence[tuple[str, dict[str, Any]]] = ()
    merge_schema: bool = False
    state: int | None = None

    def __str__(self) -> str:
        shown = {
            "rows": self.rows if self.rows is None else f"{len(self.rows)} with ids {self.rows['id'].to_pylist()[:20]}",
            "condition": self.condition,
            "values": self.values or None,
            "clauses": self.clauses or None,
            "merge_schema": self.merge_schema or None,
            "state": self.state,
        }
        arguments = ", ".join(f"{name}={value}" for name, value in shown.items() if value is not None)
        return f"{self.name}({arguments})"

    @property
    def data(self) -> pa.Table:
        assert self.rows is not None
        return self.rows


class RandomVerbs:
    """The random choices of a sequence.

    Attributes:
        parts: the values of the column ``part``.
    """

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.parts = PARTS
        self._extra = 0

    def next_verb(self, columns: Sequence[str], states: int) -> Verb:
        """The next verb.

        Args:
            columns: those of the table.
            states: the number of versions that can be restored.
        """
        chance = self.chance
        name = chance.choice(VERBS)
        kinds = {column: KINDS.get(column, pa.int64()) for column in columns}
        if name in ("append", "overwrite"):
            return Verb(name, self.rows(kinds))
        if name == "wider append":
            return Verb(name, self.rows(self._wider(kinds)))
        if name == "replace":
            condition, values = chance.choice(REPLACED)
            return Verb(name, self.rows(kinds, values), condition)
        if name == "merge":
            return self._merge(kinds)
        if name == "restore":
            return Verb(name, state=chance.randrange(states) if states else None)
        condition = chance.choice([None, *CONDITIONS])
        values = chance.choice(VALUES)
        if name == "delete":
            return Verb(name, condition=condition)
        return Verb(name, condition=condition, values=values) if name == "update" else Verb(name)

    def _merge(self, kinds: Mapping[str, pa.DataType]) -> Verb:
        chance = self.chance
        merge_schema = chance.random() < 0.2
        clauses = chance.sample(BESIDE_WIDENING if merge_schema else CLAUSES, chance.randint(1, 4))
        if merge_schema:
            kinds, clauses = self._wider(kinds), [WIDENING_CLAUSE, *clauses]
        condition = "target.id = source.id" + chance.choice(["", "", " AND target.part = 'a'", " AND target.id < 90"])
        ids = chance.sample(range(200), chance.choice([0, 1, 20]))
        rows = self.rows(kinds, {"id": ids}, count=len(ids))
        return Verb("merge", rows, condition, clauses=clauses, merge_schema=merge_schema)

    def _wider(self, kinds: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
        """The columns, and one that the table does not have."""
        self._extra += 1
        return {**kinds, f"extra{self._extra}": pa.int64()}

    def rows(
        self, kinds: Mapping[str, pa.DataType], values: Mapping[str, Any] | None = None, count: int = -1
    ) -> pa.Table:
        """Random rows; ``values`` has a value, or the values to choose from, for some columns."""
        chance = self.chance
        count = count if count >= 0 else chance.choice([0, 1, 30, 60])
        columns = {}
        for name, kind in kinds.items():
            choice = (values or {}).get(name)
            if isinstance(choice, list):
                column: list[Any] = choice
            elif isinstance(choice, range):
                column = [chance.choice(choice) for _ in range(count)]
            elif choice is not None:
                column = [choice] * count
            else:
                column = [self._value(name) for _ in range(count)]
            columns[name] = pa.array(column, kind)
        return pa.table(columns)

    def _value(self, name: str) -> Any:
        chance = self.chance
        if name == "id":
            return chance.randrange(200)
        if chance.random() < 0.1:
            return None
        if name == "part":
            return chance.choice(self.parts)
        if name == "name":
            return f"n{chance.randrange(20)}"
        if name == "amount":
            return chance.randrange(80) / 2
        return chance.randrange(19_700, 19_900) if name == "day" else chance.randrange(9)
