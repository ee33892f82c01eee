"""The rules by which change events are applied to a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from lakehouse_lib.errors import InvalidArgumentError, NotSupportedError

#: Columns of a table with history: the sequence from which a row is valid, and the sequence from which it no longer is.
START, END = "__start_at", "__end_at"
#: Column of a table with ``ignore_null_updates``: for each column, the sequence of the event that has set its value.
SEQUENCES = "__sequences"
#: Column of the changes of a table's rows: "insert", "update" or "delete".
ACTION = "__action"


@dataclass(frozen=True)
class ChangeRules:
    """The rules by which change events are applied to a table.

    Attributes:
        keys: the columns that identify a row of the source.
        sequence_by: the column that orders the events of a key.
        apply_as_deletes: a condition in SQL on the columns of the events. An event for which it is true deletes its
            row. None: no event deletes a row.
        except_columns: columns of the events that are not columns of the table.
        ignore_null_updates: a NULL in an event keeps the value of the table.
        stored_as_scd_type: 1: the table has the latest row of each key; 2: it has all rows of each key, with
            ``__start_at`` and ``__end_at``.

    Raises:
        InvalidArgumentError: the rules contradict each other.
    """

    keys: tuple[str, ...]
    sequence_by: str
    apply_as_deletes: str | None = None
    except_columns: tuple[str, ...] = ()
    ignore_null_updates: bool = False
    stored_as_scd_type: int = 1

    def __post_init__(self) -> None:
        if not self.keys:
            raise invalid_rules("keys is empty; expected at least one column")
        if len({name.lower() for name in self.keys}) < len(self.keys):
            raise invalid_rules(f"keys is {list(self.keys)}; expected each column once, whatever its case")
        if self.stored_as_scd_type not in (1, 2):
            raise invalid_rules(f"stored_as_scd_type is {self.stored_as_scd_type!r}; expected 1 or 2")
        left_out = {name.lower() for name in self.except_columns}
        for name in self._table_columns:
            if name.lower() in left_out:
                raise invalid_rules(f"except_columns has {name!r}, which the table needs")
        if self.sequence_by.lower() in {name.lower() for name in self.keys}:
            raise invalid_rules(f"sequence_by is the key {self.sequence_by!r}; expected another column")

    @property
    def keeps_history(self) -> bool:
        return self.stored_as_scd_type == 2

    @property
    def _table_columns(self) -> tuple[str, ...]:
        """The columns of the rules that the table has, too."""
        return self.keys if self.keeps_history else (*self.keys, self.sequence_by)

    def data_columns(self, names: Iterable[str]) -> list[str]:
        """The columns of the events that are columns of the table, in their order.

        Raises:
            InvalidArgumentError: the events lack a column of the rules, have a key or, without a history, the sequence
                in another case, or have a column whose name is reserved.
        """
        names = list(names)
        by_lower = {name.lower() for name in names}
        for name in (*self.keys, self.sequence_by, *self.except_columns):
            if name.lower() not in by_lower or (name in self._table_columns and name not in names):
                raise invalid_rules(
                    f"the events have no column {name!r}; they have {', '.join(names)}",
                    "Write the name as the events do, in the same case",
                )
        left_out = {name.lower() for name in self.except_columns}
        if self.keeps_history:
            left_out.add(self.sequence_by.lower())
        columns = [name for name in names if name.lower() not in left_out]
        for name in columns:
            if name.lower() in (START, END, SEQUENCES, ACTION):
                raise invalid_rules(f"the events have a column {name!r}; apply_changes uses this name itself")
        return columns


def check_key_types(schema: pa.Schema, names: Iterable[str]) -> None:
    """Check that values of these columns can be compared for equality and order.

    Raises:
        NotSupportedError: a column is nested, has floating-point numbers, or has the type null.
    """
    for name in names:
        kind = schema.field(name).type
        if pa.types.is_nested(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind):
            raise NotSupportedError(
                f"column {name!r} has the type {kind}; expected integers, decimals, text, dates or times for keys and "
                "sequences",
                hint="Convert the column of the events",
            )


def invalid_rules(message: str, hint: str = "See docs/change-events.md") -> InvalidArgumentError:
    return InvalidArgumentError(message, hint=hint, code="DELTA_INVALID_CHANGE_RULES")
