"""Write protocol-support.md from the library's own table of features: ``python -m docs.protocol_support``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakehouse_lib.features import FEATURES, TYPES, Feature
from lakehouse_lib.features.feature import HasProperty, always
from lakehouse_lib.protocol import table_properties
from lakehouse_lib.protocol.table_properties import COLUMN_MAPPING_MODE, PROPERTIES, TableProperty

PAGE = Path(__file__).with_name("protocol-support.md")

_HEAD = """\
# Protocol support

This page lists the features of the [Delta protocol][protocol], and whether this library reads and writes tables with
them. If a table uses a feature that is not supported, the library refuses the table and names the feature. To see the
features of a table:

```python
DeltaTable("orders").protocol()  # ProtocolVersions(min_reader_version=1, min_writer_version=2, ...)
```

`make docs` writes this page from `lakehouse_lib/features/table_features.py`. The library uses the same list when it
opens a table.

[protocol]: https://github.com/delta-io/delta/blob/master/PROTOCOL.md

## Features

| read, write | means |
| --- | --- |
| yes | supported |
| if unused | supported if neither the schema nor the properties of the table use the feature; otherwise refused |
| no | refused |

A table with a reader feature that is not on this page cannot be read. A table with a writer feature that is not on this
page can be read, but not written. A table that cannot be read cannot be written.

Readers must support *reader* features. *Writer* features affect only writers. *Previews* and *proposals* are features
that engines add to tables before PROTOCOL.md lists them. Names of previews end in `-preview` or `-dev`, names of
proposals do not.
"""

_VERSIONS = """
## Versions without a list of features

A table with a reader version below 3 has no list of reader features, and a table with a writer version below 7 no list
of writer features. Such a version implies the features in its line of this table and in the lines of lower versions.
For example, writer version 3 implies `appendOnly`, `invariants` and `checkConstraints`.
"""

_PROPERTIES = """
## Table properties

Pass the properties of a new table as `configuration` to `write_deltalake` or `DeltaTable.create`.
[`alter`](altering.md#properties) sets the properties of an existing table.

```python
write_deltalake("orders", orders, configuration={"delta.enableRowTracking": "true"})
```

- A property that enables a feature adds the feature to the protocol. If this library cannot write the feature, it
  refuses the property.
- `delta.feature.NAME = supported` adds the feature NAME to the protocol without enabling it, if this library can write
  the feature.
- `delta.minReaderVersion` and `delta.minWriterVersion` raise the versions of the protocol. `delta.constraints.NAME`
  adds a [constraint](constraints.md) to a new table.
- Any other name that begins with `delta.` is refused if it is not in the table below, because it may be misspelled.
- A property whose name does not begin with `delta.` is stored unchanged.
"""

_UNUSED = """
This library stores these properties for other engines, and does not use them:

"""

_TYPES = """
## Types

All types of the protocol are read and written, with these exceptions and conditions. If a type is not read, the table
can be opened, its other columns can be read, and the table cannot be written. If the protocol of the table also lists
the feature of this type, the table is refused.
"""


def page() -> str:
    """The text of the page."""
    return "".join(
        (
            _HEAD,
            _table(("feature", "kind", "read", "write", "notes"), [_row(feature) for feature in FEATURES.values()]),
            _VERSIONS,
            _table(("version", "implies"), [*_implied("reader", 0), *_implied("writer", 1)]),
            _TYPES,
            _table(
                ("type", "read", "write", "notes"),
                [(f"`{n}`", _yes(r), _yes(w), why) for n, (r, w, why) in TYPES.items()],
            ),
            _PROPERTIES,
            _table(("property", "valid values", "enables"), [_property(entry) for entry in _settable()]),
            _UNUSED,
            *(f"- `{entry.key}`\n" for entry in table_properties._UNUSED_PROPERTIES),
        )
    )


def _settable() -> list[TableProperty[Any]]:
    return [PROPERTIES[key] for key in sorted(PROPERTIES, key=str.lower) if PROPERTIES[key].settable]


def _property(entry: TableProperty[Any]) -> tuple[str, ...]:
    enables = [
        f"`{feature.name}`"
        for feature in FEATURES.values()
        if isinstance(feature.is_required_by, HasProperty) and feature.is_required_by.table_property is entry
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
    return f"`{feature.name}`", kind, read, write, feature.support_note


def _support(feature: Feature, supported: bool) -> str:
    if supported:
        return "yes"
    return "no" if feature.in_use is always else "if unused"


def _implied(side: str, index: int) -> list[tuple[str, ...]]:
    names: dict[int, list[str]] = {}
    for feature in FEATURES.values():
        if feature.legacy_versions is not None and feature.legacy_versions[index] > 1:
            names.setdefault(feature.legacy_versions[index], []).append(f"`{feature.name}`")
    return [(f"{side} {version}", ", ".join(names[version])) for version in sorted(names)]


def _yes(supported: bool) -> str:
    return "yes" if supported else "no"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
