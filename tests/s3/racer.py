"""A process of a race: ``python -m tests.s3.racer put|append|delta-rs LOCATION NUMBER ROUNDS``.

Storage options are in its environment. It prints that it is ready, and waits for a line (before every put, or once). It
prints its wins: the round, or the first id of the rows that it has committed.
"""

from __future__ import annotations

import sys

import deltalake

from lakehouse_lib import write_deltalake
from lakehouse_lib.store import open_store
from lakehouse_lib.transaction.commit_properties import CommitProperties
from tests.table_on_s3 import rows

ROWS = 10


def main(what: str, location: str, number: int, rounds: int) -> None:
    store = open_store(location)
    store.put_if_absent(f"warm/{number}", b"")
    say("ready")
    if what == "put":
        for version in range(rounds):
            sys.stdin.readline()
            won = store.put_if_absent(f"_delta_log/{version:020d}.json", bytes([number]) * 50_000)
            say("won" if won else "lost")
        return
    sys.stdin.readline()
    for step in range(rounds):
        start = (number * rounds + step) * ROWS
        if what == "append":
            patient = CommitProperties(max_commit_retries=500)
            write_deltalake(location, rows(start, ROWS), mode="append", commit_properties=patient)
        else:
            patient_too = deltalake.CommitProperties(max_commit_retries=500)
            deltalake.write_deltalake(location, rows(start, ROWS), mode="append", commit_properties=patient_too)
        say(str(start))


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
