"""Delete a person's rows from several tables in one Spark application, one table after the other.

Predicates contain the person's keys, and the task's log keeps the job's output, so the job prints no keys.
"""

from __future__ import annotations

import re
import sys
import traceback
from argparse import Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lakehouse_lib.catalogue import ERASE
from lakehouse_lib.errors import DeltaError, InvalidArgumentError
from lakehouse_lib.ledger import check_request
from spark_jobs.job import FailedAfterWork, Result, require_predicate, run_job
from spark_jobs.process.command_line import Arguments, read_json_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_MASK = "***"
_WORD = re.compile(r"[0-9A-Za-z_]+")


def arguments() -> Arguments:
    return Arguments(ERASE.name, ERASE.description, ERASE.parameters)


@dataclass(frozen=True)
class Delete:
    """A delete of the rows for which ``predicate`` is true from the table at ``table``, for the erasure ``request``."""

    table: str
    predicate: str
    request: str


def prepare(options: Namespace) -> Callable[[SparkSession], Result] | Result:
    from lakehouse_lib.snapshot import load_snapshot
    from lakehouse_lib.store import open_store

    deletes = _deletes(options.deletes_file)
    stores = [open_store(delete.table, options.storage_options.get(delete.table)) for delete in deletes]
    for store in stores:
        load_snapshot(store)
    if not deletes:
        return {"tables": []}

    def run(spark: SparkSession) -> Result:
        from lakehouse_lib.engine.spark.connect import context_of
        from lakehouse_lib.engine.spark.engine import SparkEngine
        from lakehouse_lib.expressions import parse

        context = context_of(spark)
        if context is None:
            raise InvalidArgumentError(
                "the job erase does not run on Spark Connect, because the log of its server may contain the keys of "
                "the erased person",
                hint="Use a Spark connection of the type spark",
                code="DELTA_SPARK_CONFIGURATION",
            )
        # At the level ERROR, Spark prints errors of Python workers before this code can mask them.
        context.setLogLevel("OFF")
        engine = SparkEngine(spark)
        results: list[dict[str, Any]] = []
        for delete, store in zip(deletes, stores, strict=True):
            try:
                snapshot = load_snapshot(store)
                label = f"erasure {delete.request}"
                predicate = parse(delete.predicate, snapshot.schema, table=store.root, label=label)
                result = ERASE.load()(snapshot, predicate, engine, rewrite=True)
            except Exception as error:
                raise FailedAfterWork(_mask_error(error, delete.predicate), {"tables": results}) from None
            results.append({**result.to_dict(), "table": delete.table})
        return {"tables": results}

    return run


def _mask_error(error: Exception, predicate: str) -> Exception:
    """The error without the predicate's values. An error of the library keeps its type and its code.

    An error of the library shows the label instead of the predicate, but may contain a path with a partition value.
    Errors of Arrow and Spark quote values of rows. The masked traceback of such an error is printed on standard error.
    """
    if isinstance(error, DeltaError):
        return type(error)(
            _mask(error.message, predicate),
            table=error.table,
            version=error.version,
            hint=None if error.hint is None else _mask(error.hint, predicate),
            code=error.code,
        )
    print(_mask("".join(traceback.format_exception(error)), predicate), file=sys.stderr)  # noqa: T201
    return RuntimeError(f"{type(error).__name__}: {_mask(str(error), predicate)}")


def _mask(text: str, predicate: str) -> str:
    """Mask the predicate's literals, and the partition values of paths, in a text.

    If the predicate cannot be parsed, the whole text is masked.
    """
    import sqlglot
    from sqlglot import errors, exp

    from lakehouse_lib.privacy.partition_values import without_partition_values

    try:
        values = {str(literal.this) for literal in sqlglot.parse_one(predicate, read="spark").find_all(exp.Literal)}
    except errors.SqlglotError:
        return _MASK
    text = without_partition_values(text)
    for value in values:
        if not _WORD.fullmatch(value):
            text = text.replace(value, _MASK)
    return _WORD.sub(lambda word: _MASK if word[0] in values else word[0], text)


def _deletes(path: str) -> list[Delete]:
    body = read_json_file(path, "the file of deletes")
    try:
        deletes = [Delete(**entry) for entry in body] if isinstance(body, list) else None
    except TypeError:  # not an object, or other keys
        deletes = None
    if deletes is None or not all(isinstance(text, str) for delete in deletes for text in vars(delete).values()):
        raise InvalidArgumentError(
            f"the file of deletes {path} is not a valid list of tables, predicates and requests",
            hint='Write [{"table": "/data/orders", "predicate": "o_custkey = 7", "request": "0123456789abcdef0123"}]',
        )
    for delete in deletes:
        check_request(delete.request)
        require_predicate(delete.predicate, delete.table)
    return deletes


if __name__ == "__main__":
    sys.exit(run_job(arguments(), prepare))
