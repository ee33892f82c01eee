"""``make test-gate``: random suites by the thousand, judged by Great Expectations on Spark and by the gate on Arrow."""

from __future__ import annotations

import argparse
import logging
import os
import secrets
import sys
import time
import warnings

from tests.gate.campaign import SUITES, Tally, play
from tests.gate.judges import SETTINGS
from tests.gate.recorded import record


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.gate", description=__doc__)
    parser.add_argument("--suites", type=int, default=10_000, help="number of suites; default: 10,000")
    parser.add_argument("--seed", type=int, default=None, help="seed of the first round; default: a new one")
    parser.add_argument(
        "--record", action="store_true", help="record the verdicts of tests/gate/recorded_verdicts.json"
    )
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else secrets.randbelow(10**9)
    warnings.simplefilter("ignore")
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    os.environ["TZ"] = "UTC"
    time.tzset()
    from pyspark.sql import SparkSession

    from lakehouse_lib.engine.spark.workers import make_ready

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        **SETTINGS,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # The expressions are new in each round, so that compiling them takes longer than evaluating them.
        "spark.sql.codegen.wholeStage": "false",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    make_ready(spark)
    spark.sparkContext.setLogLevel("OFF")
    if options.record:
        record(spark)
        return 0
    total, begun = Tally(), time.monotonic()
    print(f"seed {seed}: {options.suites:,} suites", flush=True)
    while total.suites < options.suites:
        tally = play(spark, seed, min(SUITES, options.suites - total.suites))
        for finding in tally.findings:
            print(finding, flush=True)
        total.add(tally)
        seed += 1
        print(
            f"{total.suites:>9,} suites {time.monotonic() - begun:6.0f} s  {total.translated:,} rules translated, "
            f"{total.untranslated:,} not, {len(total.findings)} findings",
            flush=True,
        )
    spark.stop()
    return 1 if total.findings else 0


if __name__ == "__main__":
    sys.exit(main())
