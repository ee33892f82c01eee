"""Write protocol-support.md from the library's own table of features: ``python -m docs.protocol_support``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakehouse_lib.features import FEATURES, TYPES, Feature
from lakehouse_lib.features.feature import PropertySet, always
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE, PROPERTIES, TableProperty

PAGE = Path(__file__).with_name("protocol-support.md")

_HEAD = """\
# Protocol support

What this library does with a table that lists a feature of the [Delta protocol][protocol]. `make docs` writes this page
from `lakehouse_lib/features/table_features.py`, which is also what decides when a table is opened.

*yes*: supported, in use or not. *if unused*: a table may list the feature; it is refused, by the feature's name, once
its schema or its properties put it to use. *no*: refused. A feature that is not on this page is refused, too. Whatever
cannot be read cannot be written.

[protocol]: https://github.com/delta-io/delta/blob/master/PROTOCOL.md

## Features

A *reader* feature is one that readers have to know; *writer* features concern writers alone. Previews and proposals are
names that engines put into tables before PROTOCOL.md lists them.
"""

_VERSIONS = """
## Versions without a list of features

A reader version below 3 and a writer version below 7 list nothing: each implies the features of its own line and of
those above it. The same table decides.
"""

_PROPERTIES = """
## Table properties

What `configuration` of `write_deltalake` and `DeltaTable.create` takes. A property that enables a feature puts it into
the protocol; where the feature is not written here, the property is refused. `delta.feature.NAME = supported` puts a
feature that is written here into the protocol without enabling it. Other names that begin with `delta.` are refused, so
that a misspelled one is not lost; names of your own are kept.
"""

_TYPES = """
## Types

All types of the protocol's schema are read and written; these need a word. A table can be described whatever types it
has: only a column of a type that is refused cannot be read.
"""


def page() -> str:
    """The text of the page."""
    return "".join(
        (
            _HEAD,
            _table(("feature", "kind", "read", "write", ""), [_row(feature) for feature in FEATURES.values()]),
            _VERSIONS,
            _table(("version", "implies"), [*_implied("reader", 0), *_implied("writer", 1)]),
            _TYPES,
            _table(
                ("type", "read", "write", ""), [(f"`{n}`", _yes(r), _yes(w), why) for n, (r, w, why) in TYPES.items()]
            ),
            _PROPERTIES,
            _table(("property", "valid values", "enables"), [_property(entry) for entry in _settable()]),
        )
    )


def _settable() -> list[TableProperty[Any]]:
    return [PROPERTIES[key] for key in sorted(PROPERTIES, key=str.lower) if PROPERTIES[key].settable]


def _property(entry: TableProperty[Any]) -> tuple[str, ...]:
    enables = [
        f"`{feature.name}`"
        for feature in FEATURES.values()
        if isinstance(feature.enabled, PropertySet) and feature.enabled.table_property is entry
    ]
    if entry is COLUMN_MAPPING_MODE:
        enables.append("`columnMapping`")
    return f"`{entry.key}`", entry.expected, ", ".join(enables)


def _row(feature: Feature) -> tuple[str, ...]:
    kind = "reader" if feature.reader else "writer"
    if feature.status != "released":
        kind += f", {feature.status}"
    read = _support(feature, feature.reads)
    write = _support(feature, feature.writes) if read != "no" else "no"
    return f"`{feature.name}`", kind, read, write, feature.why


def _support(feature: Feature, supported: bool) -> str:
    if supported:
        return "yes"
    return "no" if feature.used is always else "if unused"


def _implied(side: str, index: int) -> list[tuple[str, ...]]:
    names: dict[int, list[str]] = {}
    for feature in FEATURES.values():
        if feature.legacy is not None and feature.legacy[index] > 1:
            names.setdefault(feature.legacy[index], []).append(f"`{feature.name}`")
    return [(f"{side} {version}", ", ".join(names[version])) for version in sorted(names)]


def _type(name: str, reads: bool, writes: bool, why: str) -> tuple[str, ...]:
    return f"`{name}`", _yes(reads), _yes(writes), why


def _yes(supported: bool) -> str:
    return "yes" if supported else "no"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
