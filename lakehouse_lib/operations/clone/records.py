"""Records of shallow clones: the files of a table that a clone refers to. Vacuum keeps the files in a record.

A record is written before the clone. Later commits of the clone add only files in the folder of the clone. So the
record has all files of the source that the clone can ever refer to.
"""

from __future__ import annotations

import uuid

import pyarrow as pa

from lakehouse_lib.log.retention import file_records
from lakehouse_lib.store import ObjectStore

#: The kind of these records, and the key of their descriptions (``file_records``).
KIND, KEY = "clones", b"clone"


def put_record(source: ObjectStore, files: pa.Table, target: str, version: int) -> str:
    """Write the record of a clone. Returns the store path of the record.

    Args:
        files: a files table of the source.
        target: the location of the clone.
        version: the version of the source that is cloned.
    """
    path = file_records.record_path(KIND, str(uuid.uuid4()))
    file_records.put_record(source, path, files, KEY, {"location": target, "sourceVersion": version})
    return path
