"""Run pairs of concurrent transactions in delta-spark: ``python race.py FOLDER < pairs.json > outcomes.json``.

Runs in delta-spark's own environment, not in the project's. A pair has the folder of a table, and the content of the
winner and the loser: ``reads`` (conditions, null for the whole table), ``application`` (whose version it reads),
``tags`` of commitInfo and ``actions`` (lines of a commit). An outcome is the name of the loser's error, or "".
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from write import session


class Peer:
    """delta-spark's own transactions, through the JVM."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark._jsparkSession
        self._scala = spark._jvm.scala.collection.JavaConverters
        self._delta = spark._jvm.org.apache.spark.sql.delta
        self._manual = getattr(getattr(self._delta, "DeltaOperations$ManualUpdate$"), "MODULE$")
        self._action = getattr(getattr(self._delta.actions, "Action$"), "MODULE$")
        self._none = getattr(spark._jvm.scala, "None$")
        self._lists = spark._jvm.java.util.ArrayList
        self._python = spark._jvm.org.apache.spark.api.python.PythonUtils

    def race(self, folder: str, winner: dict[str, Any], loser: dict[str, Any]) -> str:
        log = self._delta.DeltaLog.forTable(self._spark, folder)
        late, early = self._begin(log, loser), self._begin(log, winner)
        self._commit(early, winner)
        try:
            self._commit(late, loser)
        except PySparkException as error:
            return type(error).__name__
        return ""

    def _begin(self, log: Any, operation: dict[str, Any]) -> Any:
        none = getattr(self._none, "MODULE$")
        transaction = log.startTransaction(none, none)
        for sql in operation["reads"]:
            if sql is None:
                transaction.readWholeTable()
            else:
                transaction.filterFiles(self._seq([self._spark.sessionState().sqlParser().parseExpression(sql)]), False)
        if operation["application"] is not None:
            transaction.txnVersion(operation["application"])
        return transaction

    def _commit(self, transaction: Any, operation: dict[str, Any]) -> None:
        actions = self._seq([self._action.fromJson(line) for line in operation["actions"]])
        transaction.commit(actions, self._manual, self._python.toScalaMap(operation["tags"]))

    def _seq(self, values: list[Any]) -> Any:
        listed = self._lists()
        for value in values:
            listed.add(value)
        return self._scala.asScalaBufferConverter(listed).asScala().toSeq()


def main(folder: Path) -> None:
    pairs = json.load(sys.stdin)
    spark = session(folder)
    try:
        peer = Peer(spark)
        json.dump([peer.race(pair["folder"], pair["winner"], pair["loser"]) for pair in pairs], sys.stdout)
    finally:
        spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
