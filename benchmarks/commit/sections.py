"""The sections of the benchmark; each returns plain values, which ``report.py`` shows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.commit.batches import make
from benchmarks.commit.committers import NAMES
from benchmarks.log import tables
from benchmarks.log.contest import Measured, Question, contest
from benchmarks.log.sections import _make as make_log

_RUNS = "benchmarks.commit.runs"
_WRITERS = "benchmarks.commit.writers"
#: Appends to a table of many files; with the other commits to it they stay below the next checkpoint.
_APPENDS = 5


class Options(NamedTuple):
    """The options of the command line.

    Attributes:
        home: the folder of tables and results.
        rounds: runs of each contestant; the median counts.
        appends: the number of appends of a process.
        writers: numbers of concurrent processes.
        commits: the number of commits of all writers.
        others: the number of winning commits to check for conflicts.
        sizes: numbers of files of the tables for appends.
        s3: a folder in an object store; empty: the section is left out.
    """

    home: Path
    rounds: int = 5
    appends: int = 200
    writers: tuple[int, ...] = (1, 4, 16)
    commits: int = 192
    others: int = 1000
    sizes: tuple[int, ...] = (1_000, 100_000, 1_000_000)
    s3: str = ""


def appending(options: Options) -> dict[str, Any]:
    """Small appends in sequence, with each writer's default checkpoint interval and with equal ones."""
    sections = {}
    for name, interval in (("default", None), ("100", 100)):
        questions = [
            Question("appends", "each opens the table", (str(options.appends),), _RUNS),
            Question("opened", "to a table that stays open", (str(options.appends),), _RUNS),
        ]
        measured = contest(make(options.home, interval), questions, NAMES, options.rounds)
        sections[name] = {"appends": options.appends, "questions": _plain(questions, measured)}
    return sections


def writing_together(options: Options) -> dict[str, Any]:
    """Appends of several concurrent processes."""
    questions = [Question(str(count), "", (str(options.commits),), _WRITERS) for count in options.writers]
    measured = contest(make(options.home, None), questions, NAMES, options.rounds)
    return {"commits": options.commits, "questions": _plain(questions, measured)}


def writing_to_s3(options: Options) -> dict[str, Any]:
    """Concurrent appends in an object store; it needs no fsync, so this library is measured once."""
    if not options.s3:
        return {"commits": options.commits, "questions": {}}
    questions = [Question(str(count), "", (str(options.commits), options.s3), _WRITERS) for count in options.writers]
    measured = contest(make(options.home, None), questions, ("ours", "delta-rs"), options.rounds)
    return {"commits": options.commits, "questions": _plain(questions, measured)}


def looking_for_conflicts(options: Options) -> dict[str, Any]:
    """Commits after ``options.others`` commits of other writers."""
    questions = [
        Question("conflict-append", "append", (str(options.others),), _RUNS),
        Question("conflict-delete", "delete of one row", (str(options.others),), _RUNS),
    ]
    measured = contest(make(options.home, None), questions, NAMES, options.rounds)
    return {"others": options.others, "questions": _plain(questions, measured)}


def growing(options: Options) -> dict[str, Any]:
    """Commits to tables of many files, between two checkpoints."""
    sections = {}
    for count in options.sizes:
        questions = [Question("size", "append", (str(_APPENDS),), _RUNS)]
        measured = contest(make_log(options, tables.Shape(count)), questions, NAMES, options.rounds)
        sections[str(count)] = {"questions": _plain(questions, measured)}
    return sections


SECTIONS: dict[str, Callable[[Options], dict[str, Any]]] = {
    "appends": appending,
    "writers": writing_together,
    "s3": writing_to_s3,
    "conflicts": looking_for_conflicts,
    "sizes": growing,
}


def _plain(questions: list[Question], measured: dict[str, dict[str, Measured]]) -> dict[str, Any]:
    return {
        question.name: {
            "title": question.title,
            "contestants": {name: dataclasses.asdict(answer) for name, answer in measured[question.name].items()},
        }
        for question in questions
    }
