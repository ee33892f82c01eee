"""Answer SQL by delta-spark, one statement in each line: ``python answer.py FOLDER``.

Runs in delta-spark's own environment, not in the project's. An input line is a JSON text. The output line begins with
"answer: " and has a JSON list of rows (times in ms since the epoch) or the text of an error.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from write import FAILURES, forget_cached_logs, session


def main(folder: Path) -> None:
    spark = session(folder)
    try:
        for line in sys.stdin:
            forget_cached_logs(spark)
            answer: Any
            try:
                answer = [row.asDict() for row in spark.sql(json.loads(line)).collect()]
            except FAILURES as error:
                answer = str(error)[:2000]
            print("answer: " + json.dumps(answer, default=plain), flush=True)
    finally:
        spark.stop()


def plain(value: Any) -> Any:
    return round(value.timestamp() * 1000) if isinstance(value, datetime) else str(value)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
