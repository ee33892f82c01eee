"""Records of shallow clones: the files of a table that a clone refers to, so that vacuum keeps them.

A record is written before the clone. It has all files of the source that the clone can ever refer to, because later
commits of the clone add only files of its own.
"""

from __future__ import annotations

import uuid

import pyarrow as pa

from lakehouse_lib.log.retention import file_records
from lakehouse_lib.store import ObjectStore

#: The kind of the records of clones, and the key of their descriptions.
KIND, KEY = "clones", b"clone"


def put_record(source: ObjectStore, files: pa.Table, target: str, version: int) -> str:
    """Write the record of a clone. Returns its path.

    Args:
        files: a files table of the source.
        target: the location of the clone.
        version: the version of the source that is cloned.
    """
    path = file_records.record_path(KIND, str(uuid.uuid4()))
    file_records.put_record(source, path, files, KEY, {"location": target, "sourceVersion": version})
    return path
