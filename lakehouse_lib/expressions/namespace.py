"""The columns of the target and the source of a MERGE, as paths that begin with the name of the side."""

from __future__ import annotations

from collections.abc import Sequence

from lakehouse_lib.errors import InvalidPredicateError
from lakehouse_lib.expressions.ir import Column
from lakehouse_lib.expressions.parsing.names.column_names import resolve
from lakehouse_lib.schema import Field, Schema, StructType

#: The top-level names of the two sides in a ``Column``; rows are tables with a struct column for each side.
TARGET, SOURCE = "target", "source"


class MergeNamespace(Schema):
    """A schema with a struct column for each side, in which names are resolved as in a MERGE.

    ``t.x`` is a column of the side with the alias ``t``. A name without an alias is a column of the only side that has
    it.

    Args:
        target, source: the columns of the sides.
        aliases: the names of the target and of the source in SQL.
        sides: the sides whose columns an expression may use; ``TARGET``, ``SOURCE`` or both.
    """

    def __init__(
        self,
        target: Schema,
        source: Schema,
        aliases: tuple[str, str] = (TARGET, SOURCE),
        sides: Sequence[str] = (TARGET, SOURCE),
    ) -> None:
        super().__init__([Field(TARGET, StructType(target.fields)), Field(SOURCE, StructType(source.fields))])
        object.__setattr__(self, "aliases", dict(zip((TARGET, SOURCE), aliases, strict=True)))
        object.__setattr__(self, "sides", tuple(sides))
        object.__setattr__(self, "schemas", {TARGET: target, SOURCE: source})

    aliases: dict[str, str]
    sides: tuple[str, ...]
    schemas: dict[str, Schema]

    def within(self, sides: Sequence[str]) -> MergeNamespace:
        """The same namespace, but an expression may use only the columns of these sides."""
        aliases = (self.aliases[TARGET], self.aliases[SOURCE])
        return MergeNamespace(self.schemas[TARGET], self.schemas[SOURCE], aliases, sides)

    def resolve(self, parts: Sequence[str]) -> Column:
        """The column that a name means. Its path begins with the side, then has the names as the schema spells them.

        Raises:
            InvalidPredicateError: no usable side has the column, or both have it.
        """
        by_alias = {alias.lower(): side for side, alias in self.aliases.items()}
        side = by_alias.get(parts[0].lower()) if len(parts) > 1 else None
        if side is not None and side not in self.sides:
            raise InvalidPredicateError(
                f"{'.'.join(parts)!r} is a column of the {side}; expected columns of the {self.sides[0]}",
                hint=f"This clause is for rows that exist only in the {self.sides[0]}",
                code="DELTA_PREDICATE_COLUMN_NOT_FOUND",
            )
        if side is not None:
            return self._below(side, parts[1:])
        sides = [side for side in self.sides if parts[0] in self.schemas[side]]
        if len(sides) > 1:
            names = " or ".join(f"{self.aliases[side]}.{'.'.join(parts)}" for side in sides)
            raise InvalidPredicateError(
                f"the column {'.'.join(parts)!r} is in the target and in the source",
                hint=f"Write {names}",
                code="DELTA_AMBIGUOUS_COLUMN",
            )
        if len(parts) > 1 and not sides:
            names = f"{self.aliases[TARGET]} and {self.aliases[SOURCE]}"
            raise InvalidPredicateError(
                f"{parts[0]!r} in {'.'.join(parts)!r} is neither an alias nor a column; the aliases are {names}",
                hint="Write one of them, or pass source_alias and target_alias to merge()",
                code="DELTA_PREDICATE_COLUMN_NOT_FOUND",
            )
        return self._below(sides[0] if sides else self.sides[0], parts)

    def _below(self, side: str, parts: Sequence[str]) -> Column:
        column = resolve(parts, self.schemas[side], side)
        return Column((side, *column.path), column.type)
