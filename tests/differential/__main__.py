"""``make differential``: random sequences of verbs, beside delta-rs on a table of its own."""

from __future__ import annotations

import argparse
import secrets
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from multiprocessing import get_context
from os import cpu_count

from tests.differential.sequences import run_sequences

#: Sequences that a process runs before it answers.
_SHARE = 20
#: A line is printed after so many shares.
_SHARES_A_LINE = 25


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--sequences", type=int, default=10_000, help="number of sequences (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=None, help="seed of the first sequence; default: a new one")
    parser.add_argument("--steps", type=int, default=12, help="verbs of a sequence (default: %(default)s)")
    parser.add_argument(
        "--engine", choices=("arrow", "spark"), default=None, help="default: Spark for each 200th seed, else Arrow"
    )
    options = parser.parse_args()
    first = options.seed if options.seed is not None else secrets.randbelow(10**6) * 10_000
    seeds = range(first, first + options.sequences)
    verbs: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    differences: list[str] = []
    shares = [seeds[start : start + _SHARE] for start in range(0, len(seeds), _SHARE)]
    with ProcessPoolExecutor(cpu_count(), mp_context=get_context("forkserver")) as pool:
        for number, outcomes in enumerate(
            pool.map(run_sequences, shares, repeat(options.steps), repeat(options.engine)), 1
        ):
            if number % _SHARES_A_LINE == 0:
                print(f"{number * _SHARE} of {len(seeds)} sequences, {len(differences)} differences", flush=True)
            for outcome in outcomes:
                verbs += outcome.verbs
                refused += outcome.refused
                if outcome.difference:
                    differences.append(outcome.difference)
                    print(f"DIFFERENCE: {outcome.difference}", flush=True)
    print(f"{len(seeds)} sequences from seed {first}, {len(differences)} differences")
    print("verbs: " + ", ".join(f"{count} {verb}" for verb, count in sorted(verbs.items())))
    for error, count in refused.most_common(20):
        print(f"  delta-rs refused {count} times: {error}")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
