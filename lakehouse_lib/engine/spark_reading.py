"""A snapshot's files as a DataFrame, by Spark's own vectorised Parquet scan over exactly these files.

``spark.read.parquet(*paths)`` looks at every path before it plans; the same list as the log of Spark's streaming file
sink, one file in a scratch folder, plans 10,000 files in half a second, with pruning and pushdown. Spark then takes
partition values from folder names, where the table takes them from the log. So files whose folders say what the log
says are read like that, and the others get the log's values by a broadcast join on the file's path.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import re
import shutil
import tempfile
import unicodedata
from functools import cache, reduce
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse_lib import file_paths, partition_values
from lakehouse_lib.engine.data_reader import TableReader
from lakehouse_lib.engine.scan import Scan
from lakehouse_lib.errors import InvalidArgumentError
from lakehouse_lib.predicates import to_spark_sql
from lakehouse_lib.schema import PrimitiveType, Schema

# Types that Spark reads from a folder's name as it stands in the log, whatever the session's settings.
_SPELLED_ALIKE = {"string", "byte", "short", "integer", "long", "date", "boolean"}
_MOST_BRANCHES = 8
_FILE, _FOUND = "__lakehouse_file", "__lakehouse_found"


def struct_type(schema: Schema) -> Any:
    """A Delta schema as Spark's StructType: their JSON is the same."""
    from pyspark.sql.types import StructType

    return StructType.fromJson(schema.json())


def read_frame(spark: Any, scan: Scan, files: pa.Table) -> Any:
    """The rows of ``files`` that the scan's predicate is true for, with the scan's columns."""
    reader = scan.reader
    paths = file_paths.decode_all(files.column("path"), reader.store)
    files = files.set_column(files.column_names.index("path"), "path", paths)
    if not len(files):
        frame = spark.createDataFrame([], struct_type(reader.schema))
    elif not reader.constants(files.slice(0, 0)):
        frame = _typed(_scan(spark, files, reader, reader.schema, folders=False), reader.schema)
    else:
        frame = _partitioned(spark, files, reader)
    if scan.predicate is not None:
        frame = frame.where(to_spark_sql(scan.predicate))
    return frame.select(*map(_quoted, scan.columns))


def _partitioned(spark: Any, files: pa.Table, reader: TableReader) -> Any:
    keys = _branch_keys(files, reader)
    branches = sorted({key for key in keys if key})
    if len(branches) > _MOST_BRANCHES:
        branches = []
    frames = []
    for branch in branches:
        chosen = files.filter(pa.array(np.array([key == branch for key in keys], dtype=bool)))
        frames.append(_typed(_scan(spark, chosen, reader, reader.schema, folders=True), reader.schema))
    rest = files.filter(pa.array(np.array([key not in branches for key in keys], dtype=bool)))
    if len(rest):
        frames.append(_joined(spark, rest, reader))
    return reduce(lambda left, right: left.unionAll(right), frames)


def _branch_keys(files: pa.Table, reader: TableReader) -> list[str]:
    """For each file the base folder and folder keys it shares with its branch; "" where folders and log disagree."""
    names = [one.name for one in reader.schema.fields if one.name in reader.partition_columns]
    folders = pc.replace_substring_regex(files.column("path"), r"/?[^/]*$", "").to_pylist()
    if any(str(reader.schema.field(name).type) not in _SPELLED_ALIKE for name in names):
        return [""] * len(folders)
    logged = [
        pc.map_lookup(files.column("partitionValues").combine_chunks(), pa.scalar(name), "first").to_pylist()
        for name in names
    ]
    parse = cache(lambda folder: _parse(f"{reader.store.root}/{folder}" if folder else reader.store.root))
    taken = {name.lower() for name in reader.schema.names}
    keys = []
    for folder, *values in zip(folders, *logged, strict=True):
        base, found = parse(folder)
        spelled = dict(found)
        extra = {key.lower() for key in spelled if key not in names}
        agrees = (
            len(spelled) == len(found)
            and not extra & taken
            and all(name in spelled for name in names)
            and all(spelled[name] == (value or None) for name, value in zip(names, values, strict=True))
        )
        keys.append("/".join([base, *spelled]) if agrees else "")
    return keys


def _parse(folder: str) -> tuple[str, list[tuple[str, str | None]]]:
    """Base folder and ``key=value`` folders at a path's end, as Spark finds them."""
    parts = folder.split("/")
    found: list[tuple[str, str | None]] = []
    while parts and "=" in parts[-1] and not parts[-1].startswith("="):
        key, _, value = parts.pop().partition("=")
        found.append((unquote(key), None if value == partition_values.HIVE_NULL else unquote(value)))
    return "/".join(parts), found[::-1]


def _scan(spark: Any, files: pa.Table, reader: TableReader, schema: Schema, *, folders: bool) -> Any:
    """Spark's scan over a manifest. ``folders``: partition values from folder names."""
    manifest = _manifest(files, reader.store.root)
    source = spark.read.schema(struct_type(_stored(schema)))
    if not folders:
        source = source.option("recursiveFileLookup", "true")
    return source.parquet(manifest)


def _joined(spark: Any, files: pa.Table, reader: TableReader) -> Any:
    """Partition values from the log, joined by path."""
    from pyspark.sql import functions as F

    constants = reader.constants(files)
    data = Schema([one for one in reader.schema.fields if one.name not in constants])
    frame = _scan(spark, files, reader, data, folders=False)
    paths = files.column("path").to_pylist()
    uris = [_java_uri(f"{reader.store.root}/{path}") for path in paths]
    values = pa.table({_FILE: pa.array(uris, pa.string()), **{f"__value_{name}": v for name, v in constants.items()}})
    fields = ", ".join([f"`{_FILE}` string", *(f"`__value_{name}` {_ddl(reader, name)}" for name in constants)])
    logged = spark.createDataFrame(values, fields)
    located = frame.select("*", F.col("_metadata.file_path").alias(_FILE))
    joined = located.join(F.broadcast(logged.withColumn(_FOUND, F.lit(True))), _FILE, "left")
    unknown = F.raise_error(F.concat(F.lit("no partition values for the file "), F.col(_FILE)))
    columns = [
        F.when(F.col(_FOUND), F.col(_quoted(f"__value_{one.name}"))).otherwise(unknown).alias(one.name)
        if one.name in constants
        else _column(one.name, data)
        for one in reader.schema.fields
    ]
    return joined.select(*columns)


def _java_uri(path: str) -> str:
    """An absolute path as ``_metadata.file_path`` shows it: java.net.URI escapes what is ASCII and not legal in a path,
    and of the rest spaces and control characters."""

    def escape(match: re.Match[str]) -> str:
        kept = not match[0].isascii() and unicodedata.category(match[0]) not in ("Zs", "Zl", "Zp", "Cc")
        return match[0] if kept else quote(match[0], safe="")

    return "file:" + re.sub(r"[^A-Za-z0-9_\-!.~'()*,;:$&+=@/]", escape, path)


def _typed(frame: Any, schema: Schema) -> Any:
    """The scan's columns in the schema's order; void ones are nulls."""
    return frame.select(*(_column(one.name, schema) for one in schema.fields))


def _column(name: str, schema: Schema) -> Any:
    from pyspark.sql import functions as F

    if schema.field(name).type == PrimitiveType("void"):
        return F.lit(None).alias(name)
    return F.col(_quoted(name))


def _stored(schema: Schema) -> Schema:
    return Schema([one for one in schema.fields if one.type != PrimitiveType("void")])


def _ddl(reader: TableReader, name: str) -> str:
    kind = reader.schema.field(name).type
    if not isinstance(kind, PrimitiveType):
        raise InvalidArgumentError(f"the partition column {name} has the type {kind}", table=reader.store.root)
    return kind.type


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _manifest(files: pa.Table, root: str) -> str:
    """A scratch folder whose file sink log lists exactly these files; the same list gives the same folder."""
    entries = ["v1"]
    columns = (files.column(name).to_pylist() for name in ("path", "size", "modificationTime"))
    for path, size, modified in zip(*columns, strict=True):
        entry = {
            "path": Path(root, path).as_uri(),
            "size": size,
            "isDir": False,
            "modificationTime": modified or 0,
            "blockReplication": 1,
            "blockSize": 128 << 20,
            "action": "add",
        }
        entries.append(json.dumps(entry))
    text = "\n".join(entries).encode()
    folder = _scratch() / hashlib.sha256(text).hexdigest()[:32]
    log = folder / "_spark_metadata"
    if not (log / "0").exists():
        log.mkdir(parents=True, exist_ok=True)
        aside = log / ".0.tmp"
        aside.write_bytes(text)
        aside.rename(log / "0")
    return folder.as_uri()


@cache
def _scratch() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="lakehouse-manifests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
