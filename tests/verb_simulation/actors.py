"""Writers and maintainers that call the library's own verbs, with Parquet data files."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pyarrow as pa

from lakehouse_lib.engine.arrow.engine import ArrowEngine
from lakehouse_lib.errors import (
    CommitFailedError,
    CommitUnknownError,
    ConstraintViolatedError,
    DeltaError,
    MetadataChangedError,
    RetentionError,
    VersionNotFoundError,
)
from lakehouse_lib.operations.results import ChangeResult
from lakehouse_lib.snapshot import Snapshot, load_snapshot
from lakehouse_lib.transaction.commit_properties import CommitProperties
from tests.verb_simulation.history import Violation
from tests.verb_simulation.plans import KEYS, PARTS, OperationPlan
from tests.verb_simulation.store import ParquetStore
from tests.verb_simulation.stories import Stories

SCHEMA = pa.schema([("id", pa.int64()), ("key", pa.int64()), ("part", pa.int64())])
#: Verbs that conflict only with changes of constraints and columns.
_SELDOM_LOSE = ("append", "delete", "update", "merge", "insert", "correct")


class Actor:
    """One process.

    Args:
        name: unique among the actors.
        store: the actor's own store.
        number: the number of the actor; the ids of its rows begin with it.

    Attributes:
        outcomes: the outcome of each verb, in a few words.
        begun: the number of all calls before the present verb.
        dice: the choices of the present verb.
    """

    def __init__(self, name: str, store: ParquetStore, number: int, stories: Stories) -> None:
        self.name = name
        self.store = store
        self.stories = stories
        self.engine = ArrowEngine(1)
        self.outcomes: list[str] = []
        self.begun = 0
        self.dice = random.Random(0)
        self._rows = number * 1_000
        self._operations = 0
        self._snapshot: Snapshot | None = None

    def do(self, verb: str, act: Callable[[Actor, Snapshot, str], None] | None, seed: str) -> None:
        """Run one verb, or wait; the seed makes its choices."""
        self.dice = random.Random(seed)
        self.store.trouble = False
        self.begun = len(self.store.simulation.history)
        name = f"{self.name} {self._operations}"
        self._operations += 1
        try:
            if act is None:
                self.store.simulation.sleep_for_hours(50 if verb == "days" else 2)
                return
            with self.store.simulation.at_once(self.name):
                act(self, self._opened(), name)
        except CommitUnknownError as error:  # the commit may exist or not
            self._outcome(verb, error)
        except CommitFailedError as error:
            is_cleaned = self.stories.archive.was_cleaned  # the version that the actor has read may be gone
            if verb in _SELDOM_LOSE and not isinstance(error, MetadataChangedError) and not is_cleaned:
                raise Violation(f"{name} runs {verb} and gets an error without a reason: {error!r}") from error
            self.stories.refused.add(name)
            if not self.store.trouble and not is_cleaned and name in self.stories.plans:  # a vacuum has no plan
                assert self._snapshot is not None
                self.stories.lost[name] = self._snapshot.version
            self._outcome(verb, error)
        except ConstraintViolatedError as error:
            self.stories.refused.add(name)
            self.stories.against_a_rule.add(name)
            self._outcome(verb, error)
        except DeltaError as error:
            if not self.is_explained(error):
                raise Violation(f"{name} runs {verb} and gets an error without a reason: {error!r}") from error
            self.stories.refused.add(name)
            self._outcome(verb, error)

    def _opened(self) -> Snapshot:
        """The open version, or the latest."""
        if self._snapshot is None or self.dice.random() < 0.6:
            self._snapshot = load_snapshot(self.store)
        return self._snapshot

    def is_explained(self, error: DeltaError) -> bool:
        """Whether the store or the actor's clock explains the error."""
        if isinstance(error, RetentionError):
            return self.store.simulation.was_ahead(self.name, self.begun)
        if isinstance(error, VersionNotFoundError) and self.stories.archive.was_cleaned:
            return True
        return self.store.trouble

    def condition(self) -> tuple[str, Callable[[int, int, int], bool]]:
        """A condition on rows, as SQL and as a function of id, key and part."""
        key, part = self.dice.randrange(KEYS), self.dice.randrange(PARTS)
        kinds: tuple[tuple[str, Callable[[int, int, int], bool]], ...] = (
            (f"key = {key}", lambda _, k, __: k == key),
            (f"key >= {key}", lambda _, k, __: k >= key),
            (f"part = {part}", lambda _, __, p: p == part),
            (f"part = {part} AND key = {key}", lambda _, k, p: (k, p) == (key, part)),
        )
        return self.dice.choice(kinds)

    def new_id(self) -> int:
        self._rows += 1
        return self._rows

    def ask(self, name: str, plan: OperationPlan) -> None:
        """Note the plan of an operation before it begins."""
        self.stories.plans[name] = plan

    def finish(
        self, name: str, result: ChangeResult, row_counts: dict[str, int] | None = None, metric: str = ""
    ) -> None:
        """Note the commit of a row change and its number of rows, or that no row matched."""
        if result.version is None:
            assert result.read_version is not None
            self.stories.idle[name] = result.read_version
            self.be_idle(name)
            return
        self.be_done(name, result.version)
        if row_counts is not None and result.metrics[metric] is not None:
            row_counts[name] = result.metrics[metric]

    def be_done(self, name: str, version: int) -> None:
        """Note that an operation is committed."""
        self.stories.done[name] = version
        self.outcomes.append(f"{self.stories.plans[name].verb}: committed")

    def be_idle(self, name: str) -> None:
        """Note that an operation is not committed, because there was nothing to do."""
        self.stories.refused.add(name)
        self.outcomes.append(f"{self.stories.plans[name].verb}: nothing to do")

    def _outcome(self, verb: str, error: DeltaError) -> None:
        self.outcomes.append(f"{verb}: {type(error).__name__}")


def named(name: str) -> CommitProperties:
    """The properties of a commit by which the checker recognizes the operation."""
    return CommitProperties(custom_metadata={"userMetadata": name})


def rows_of(actor: Actor, count: int) -> dict[int, tuple[int, int]]:
    """New rows with any key and part."""
    return {actor.new_id(): (actor.dice.randrange(KEYS), actor.dice.randrange(PARTS)) for _ in range(count)}


def table_of(rows: Mapping[int, tuple[int, int]]) -> pa.Table:
    """Rows as Arrow."""
    return pa.Table.from_pylist(
        [{"id": number, "key": key, "part": part} for number, (key, part) in rows.items()], schema=SCHEMA
    )
