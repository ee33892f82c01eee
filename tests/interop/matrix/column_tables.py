"""The tables of the matrix whose columns are computed, variants, or members of structs that change."""

from __future__ import annotations

import pyarrow as pa

from lakehouse_lib import DeltaTable, Field, Schema, VariantType
from tests.interop.matrix.our_table import OurTable, Writer, line, rows

#: The functions that write these tables, by the titles of their lines.
COLUMNS: dict[str, Writer] = {}

FIRST, SECOND = range(10), range(10, 16)


@line(COLUMNS, "generated columns, one of them a partition column")
def generated_columns(table: OurTable) -> None:
    fields = [
        Field("id", "long"),
        Field("part", "string"),
        Field("amount", "double"),
        Field("twice", "double", metadata={"delta.generationExpression": "amount * 2"}),
        Field("letter", "string", metadata={"delta.generationExpression": "substring(part, 1, 1)"}),
    ]

    def computed(base: pa.Table) -> pa.Table:
        amounts, parts = base["amount"].to_pylist(), base["part"].to_pylist()
        twice = pa.array([None if amount is None else amount * 2 for amount in amounts], pa.float64())
        return base.append_column("twice", twice).append_column("letter", pa.array([p and p[0] for p in parts]))

    DeltaTable.create(table.root, Schema(fields), partition_by=["letter"])
    table.has(computed(rows([])).cast(Schema(fields).to_arrow()))
    table.write(rows(FIRST), computed(rows(FIRST)), mode="append")
    table.write(computed(rows(SECOND)), computed(rows(range(16))), mode="append")
    table.open().update({"amount": "amount + 100"}, predicate="id < 4")
    changed: dict[int, float | None] = {key: key / 2 + 100 for key in range(4)}
    table.has(computed(rows(range(16), changed)))
    merger = table.open().merge(rows([4, 20], {4: 7.0}), "t.id = s.id", source_alias="s", target_alias="t")
    merger.when_matched_update({"amount": "s.amount"})
    merger.when_not_matched_insert({"id": "s.id", "part": "s.part", "amount": "s.amount"}).execute()
    table.has(computed(rows([*range(16), 20], changed | {4: 7.0})))


@line(COLUMNS, "column defaults, set on a table with rows")
def column_defaults(table: OurTable) -> None:
    table.write(rows(FIRST), rows(FIRST))
    table.open().alter.set_column_default("part", r"'it\'s new'")
    table.has(rows(FIRST))
    table.write(rows([20]).drop_columns(["part"]), with_parts(rows([*FIRST, 20]), {20: "it's new"}), mode="append")
    table.write(with_parts(rows([21]), {21: None}), with_parts(rows([*FIRST, 20, 21]), PARTS), mode="append")
    merger = table.open().merge(rows([22]), "t.id = s.id", source_alias="s", target_alias="t")
    merger.when_not_matched_insert({"id": "s.id", "amount": "s.amount"}).execute()
    table.has(with_parts(rows([*FIRST, *range(20, 23)]), PARTS))
    table.open().alter.drop_column_default("part")
    table.has(with_parts(rows([*FIRST, *range(20, 23)]), PARTS))
    table.open().alter.set_column_default("part", "'y'")
    table.has(with_parts(rows([*FIRST, *range(20, 23)]), PARTS))


#: The values of ``part`` in the rows of ``column_defaults`` that were written without it, and in one with null.
PARTS = {20: "it's new", 21: None, 22: "it's new"}


def with_parts(base: pa.Table, parts: dict[int, str | None]) -> pa.Table:
    """Rows with other values of ``part``, by id."""
    values = [parts.get(row["id"], row["part"]) for row in base.to_pylist()]
    return base.set_column(1, "part", pa.array(values, pa.string()))


@line(COLUMNS, "identity columns")
def identity_columns(table: OurTable) -> None:
    numbered = {"delta.identity.start": 100, "delta.identity.step": 5, "delta.identity.allowExplicitInsert": True}
    fields = [Field("id", "long"), Field("part", "string"), Field("amount", "double")]
    DeltaTable.create(table.root, Schema([*fields, Field("number", "long", metadata=numbered)]))
    numbers: dict[int, int] = {}

    def has(expected: pa.Table) -> None:
        """Note the rows: numbers are unique and stay; which of them a row gets depends on the engine."""
        latest = {row["id"]: row["number"] for row in table.open().to_pyarrow_table().to_pylist()}
        assert {key: numbers[key] for key in numbers if key in latest} == {
            k: v for k, v in latest.items() if k in numbers
        }
        assert not set(latest.values()) & {number for key, number in numbers.items() if key not in latest}
        assert len(set(latest.values())) == len(latest)
        assert all(number >= 100 and number % 5 == 0 for number in latest.values())
        numbers.update(latest)
        values = [numbers[key] for key in expected["id"].to_pylist()]
        table.has(expected.append_column("number", pa.array(values, pa.int64())))

    has(rows([]))
    for ids, expected in ((FIRST, FIRST), (SECOND, range(16))):
        table.append(rows(ids))
        has(rows(expected))
    table.open().delete("id = 15")
    has(rows(range(15)))
    merger = table.open().merge(rows([3, 20], {3: 1.0}), "t.id = s.id", source_alias="s", target_alias="t")
    merger.when_matched_update({"amount": "s.amount"})
    merger.when_not_matched_insert({"id": "s.id", "part": "s.part", "amount": "s.amount"}).execute()
    has(rows([*range(15), 20], {3: 1.0}))


@line(COLUMNS, "variants")
def variants(table: OurTable) -> None:
    life_of_variants(table)


@line(COLUMNS, "variants, with the feature variantShredding")
def shredded_variants(table: OurTable) -> None:
    """This library lists the feature, and writes variants without shredding."""
    life_of_variants(table, "variantShredding")


@line(COLUMNS, "variants, with the previews of the features")
def previewed_variants(table: OurTable) -> None:
    life_of_variants(table, "variantType-preview", "variantShredding-preview")


def life_of_variants(table: OurTable, *features: str) -> None:
    """Create, append, delete, update and compact, in a table whose protocol lists these features."""
    kind = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    #: {"a": 1} and 1, in the encoding of variants.
    values = [
        {"metadata": b"\x01\x01\x00\x01a", "value": b"\x02\x01\x00\x00\x02\x0c\x01"},
        {"metadata": b"\x01\x00\x00", "value": b"\x0c\x01"},
        None,
    ]

    def some(*ids: int) -> pa.Table:
        return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([values[key % 3] for key in ids], kind)})

    schema = Schema([Field("id", "long"), Field("v", VariantType())])
    DeltaTable.create(table.root, schema, configuration={f"delta.feature.{name}": "supported" for name in features})
    table.has(some())
    table.write(some(*range(6)), some(*range(6)), mode="append")
    table.open().delete("id = 1")
    table.has(some(0, 2, 3, 4, 5))
    table.open().update({"id": "id + 3"}, predicate="id = 5")
    table.has(some(0, 2, 3, 4, 8))
    table.write(some(9, 10), some(0, 2, 3, 4, 8, 9, 10), mode="append")
    table.open().optimize.compact()
    table.has(some(0, 2, 3, 4, 8, 9, 10))


@line(COLUMNS, "members of structs renamed, dropped and widened, and the order of columns")
def members(table: OurTable) -> None:
    place = pa.struct([("city", pa.string()), ("zip", pa.int32()), ("old", pa.string())])
    kinds = pa.schema([("id", pa.int64()), ("place", place), ("items", pa.list_(place))])

    def before(*ids: int) -> pa.Table:
        places = [{"city": f"c{key}", "zip": key, "old": "x"} if key % 3 else None for key in ids]
        values = [{"id": key, "place": value, "items": [value]} for key, value in zip(ids, places, strict=True)]
        return pa.Table.from_pylist(values, schema=kinds)

    on = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
    table.write(before(*FIRST), before(*FIRST), configuration=on)

    def after(town: str, zip_kind: pa.DataType, left: list[str], order: list[str]) -> pa.Table:
        """The first rows, after a change of the members of ``place`` or of the order of the columns."""
        names = {"city": town, "zip": "zip", "old": "old"}
        fields = {"city": pa.string(), "zip": zip_kind, "old": pa.string()}
        kind = pa.struct([(names[name], fields[name]) for name in left])
        values = [
            {**row, "place": row["place"] and {names[name]: row["place"][name] for name in left}}
            for row in before(*FIRST).to_pylist()
        ]
        return pa.Table.from_pylist(values, schema=kinds.set(1, pa.field("place", kind))).select(order)

    order, moved = ["id", "place", "items"], ["id", "items", "place"]
    table.open().alter.rename_column("place.city", "the `town`")
    table.has(after("the `town`", pa.int32(), ["city", "zip", "old"], order))
    table.open().alter.drop_columns(["place.old"])
    table.has(after("the `town`", pa.int32(), ["city", "zip"], order))
    table.open().alter.change_column_type("place.zip", "long")
    table.has(after("the `town`", pa.int64(), ["city", "zip"], order))
    table.open().alter.move_column("place.zip")
    table.has(after("the `town`", pa.int64(), ["zip", "city"], order))
    table.open().alter.move_column("place", after="items")
    last = after("the `town`", pa.int64(), ["zip", "city"], moved)
    table.has(last)
    new = {"id": 20, "items": [], "place": {"zip": 2**40, "the `town`": "y"}}
    added = pa.Table.from_pylist([new], schema=last.schema)
    table.write(added, pa.concat_tables([last, added]), mode="append")
    table.open().optimize.compact()
    table.has(pa.concat_tables([last, added]))
