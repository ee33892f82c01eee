"""The sections of the benchmark; each asks its questions and returns plain values, which ``report.py`` shows."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from benchmarks.log import json_commits, tables
from benchmarks.log.contest import ROOT, Measured, Question, contest

#: Files of the tables of the growth section.
SIZES = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
_PAIR = ("ours", "delta-rs")
#: A larger table is measured once, because it takes minutes and has little noise.
_LARGE = 2_000_000
_LARGE_ROUNDS = 1


class Options(NamedTuple):
    """The options of the command line.

    Attributes:
        home: the folder of tables and results.
        files: the number of files of the tables that are opened.
        rounds: runs of each contestant; the median counts.
        sizes: the numbers of files in the growth section.
        scan_files: the number of files of the table with data.
        commit_files: the number of files of each commit in tables without a checkpoint.
    """

    home: Path
    files: int = 1_000_000
    rounds: int = 5
    sizes: tuple[int, ...] = SIZES
    scan_files: int = 10_000
    commit_files: int = 100_000


def opening(options: Options) -> dict[str, Any]:
    """Open a table of many files and list them."""
    shape = tables.Shape(options.files)
    questions = [
        Question("uris", "open + file_uris()"),
        Question("files", "open + the list of files, ours as Arrow by files(), delta-rs as file_uris()"),
        Question("actions", "open + get_add_actions(flatten=True)"),
    ]
    measured = contest(_make(options, shape), questions, _PAIR, options.rounds)
    return _section(shape.live, questions, measured)


def committing(options: Options) -> dict[str, Any]:
    """Open tables of three and of ten large JSON commits, and list their files."""
    both = {}
    for count in (3, 10):
        commits = json_commits.Commits(count, options.commit_files)
        questions = [Question("uris", f"open {count} commits + file_uris()")]
        measured = contest(json_commits.make(options.home, commits), questions, _PAIR, options.rounds)
        both[commits.name] = _section(count * commits.files, questions, measured)
    return both


def pruning(options: Options) -> dict[str, Any]:
    """Plan a point predicate, by statistics as structs and by JSON alone."""
    both = {}
    for shape in (tables.Shape(options.files), tables.Shape(options.files, parsed=False)):
        questions = [_point("prune", "open + files that may match id = x", shape)]
        table = _make(options, shape)
        measured = contest(table, questions, _PAIR, options.rounds)
        # Each run needs a session, which takes tens of seconds, so there are fewer rounds.
        peer = contest(table, questions, ("delta-spark",), min(options.rounds, 3))
        _agree(shape, measured["prune"], peer["prune"])
        measured["prune"].update(peer["prune"])
        both[shape.name] = _section(shape.live, questions, measured)
    return both


def refreshing(options: Options) -> dict[str, Any]:
    """Follow an open table by one new commit."""
    shape = tables.Shape(options.files)
    questions = [Question("refresh", "one new commit: update_incremental()")]
    return _section(shape.live, questions, contest(_make(options, shape), questions, _PAIR, options.rounds))


def partitions(options: Options) -> dict[str, Any]:
    """Plan a query on one of many partitions (the experiment of the Delta paper, section 6.1)."""
    shape = tables.Shape(options.files, partitioned=True)
    questions = [_point("prune", "open + files of the partition key = x", shape)]
    return _section(shape.live, questions, contest(_make(options, shape), questions, _PAIR, options.rounds))


def growth(options: Options) -> dict[str, Any]:
    """Ask the same questions about tables of a thousand to ten million files."""
    sizes = {}
    need = dict.fromkeys(_PAIR, 0.0)
    for count in options.sizes:
        shape = tables.Shape(count)
        questions = [
            Question("uris", "open + file_uris()"),
            Question("files", "open + files as Arrow"),
            _point("prune", "open + prune id = x", shape),
        ]
        able = [name for name in _PAIR if need[name] < psutil.virtual_memory().available / 1e6]
        rounds = min(options.rounds, _LARGE_ROUNDS) if count > _LARGE else options.rounds
        measured = contest(_make(options, shape), questions, able, rounds)
        for name in _PAIR:
            if name not in able:
                for contestants in measured.values():
                    contestants[name] = Measured(missing=f"not measured: needs about {need[name] / 1000:.0f} GB")
                continue
            peaks = [peak for contestants in measured.values() for peak in contestants[name].peak_mb]
            need[name] = 11 * max(peaks, default=0)  # the memory for ten times as many files
        sizes[str(count)] = _section(shape.live, questions, measured)
    return sizes


def scanning(options: Options) -> dict[str, Any]:
    """Rows through ``to_spark`` beside plain Spark Parquet over the same folder."""
    return _in_a_process("benchmarks.log.scan", options, str(options.scan_files), str(options.rounds))


SECTIONS: dict[str, Callable[[Options], dict[str, Any]]] = {
    "open": opening,
    "commits": committing,
    "prune": pruning,
    "refresh": refreshing,
    "partitions": partitions,
    "growth": growth,
    "scan": scanning,
}


def _make(options: Options, shape: tables.Shape) -> Path:
    """Make a table in a new process, so that its memory is freed afterwards."""
    if not (options.home / shape.name).exists():
        print(f"making {shape.name}", file=sys.stderr, flush=True)
        code = "import sys, pathlib; from benchmarks.log import tables as t; "
        code += "t.make(pathlib.Path(sys.argv[1]), t.Shape.of(sys.argv[2]))"
        subprocess.run([sys.executable, "-c", code, str(options.home), shape.name], check=True, cwd=ROOT)
    return options.home / shape.name


def _point(name: str, title: str, shape: tables.Shape) -> Question:
    conditions = tuple(tables.point(shape, share) for share in (0.5, 0.1, 0.3, 0.7, 0.9))
    return Question(name, title, conditions)


def _agree(shape: tables.Shape, measured: dict[str, Measured], peers: dict[str, Measured]) -> None:
    answers = {(answer.count, answer.digest) for answer in (*measured.values(), *peers.values()) if answer.cold}
    if len(answers) > 1:
        raise SystemExit(f"the plans of {shape.name} differ: {answers}")


def _section(files: int, questions: list[Question], measured: dict[str, dict[str, Measured]]) -> dict[str, Any]:
    return {
        "files": files,
        "questions": {
            question.name: {
                "title": question.title,
                "contestants": {name: dataclasses.asdict(answer) for name, answer in measured[question.name].items()},
            }
            for question in questions
        },
    }


def _in_a_process(module: str, options: Options, *arguments: str) -> dict[str, Any]:
    log = options.home / f"{module.rsplit('.', 1)[-1]}.log"
    with log.open("ab") as errors:
        command = [sys.executable, "-m", module, str(options.home), *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=errors, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{module} failed; {log} has the reason")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
