"""Records of shallow clones: the files of a table that a clone refers to, so that vacuum keeps them.

A record is written before the clone and stays until a user deletes it, because the source cannot see whether the clone
still exists.
"""

from __future__ import annotations

import uuid

import pyarrow as pa

from lakehouse_lib.log import file_records
from lakehouse_lib.store import ObjectStore


def put_record(source: ObjectStore, files: pa.Table, target: str, version: int) -> str:
    """Write the record of a clone. Returns its path.

    Args:
        files: a files table of the source.
        target: the location of the clone.
        version: the version of the source that is cloned.
    """
    path = file_records.record_path("clones", str(uuid.uuid4()))
    file_records.put_record(source, path, files, b"clone", {"location": target, "sourceVersion": version})
    return path
