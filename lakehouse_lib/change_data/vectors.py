"""Deletion vectors that select: the rows that one vector hides and another does not.

A commit that replaces ``(file, old vector)`` by ``(file, new vector)`` has deleted the rows of the new one that the old
one did not have. They are read as any rows are: from the file, under a vector that hides all the others.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from pyroaring import BitMap64

from lakehouse_lib.errors import LogCorruptedError
from lakehouse_lib.protocol import deletion_vector
from lakehouse_lib.store import ObjectStore

_MAGIC = (1681511377).to_bytes(4, "little")
# Z85 is Ascii85's arithmetic with ZeroMQ's alphabet; Python's b85 has another alphabet.
_B85 = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_TO_Z85 = bytes.maketrans(_B85, _Z85)


def hidden_rows(store: ObjectStore, descriptor: Mapping[str, Any] | None) -> BitMap64:
    """The positions a file's vector hides; none for None."""
    return BitMap64() if descriptor is None else deletion_vector.load(store, descriptor)


def hide_all_but(shown: BitMap64, rows: int) -> dict[str, Any]:
    """The descriptor of an inline vector for a file of so many rows that leaves just ``shown`` (PROTOCOL.md, section
    Deletion Vector Format).

    Raises:
        LogCorruptedError: ``shown`` reaches beyond the file's rows.
    """
    if len(shown) and shown.max() >= rows:
        raise LogCorruptedError(
            f"a deletion vector hides row {shown.max()} of a file of {rows} rows",
            code="DELTA_DELETION_VECTOR_CORRUPTED",
        )
    hidden = BitMap64()
    hidden.add_range(0, rows)
    hidden -= shown
    hidden.run_optimize()
    data = _MAGIC + hidden.serialize()
    padded = data + b"\0" * (-len(data) % 4)
    return {
        "storageType": "i",
        "pathOrInlineDv": base64.b85encode(padded).translate(_TO_Z85).decode(),
        "offset": None,
        "sizeInBytes": len(data),
        "cardinality": len(hidden),
    }
