"""All possible bugs of verbs with concurrent commits; every bug must be found."""

from __future__ import annotations

from collections.abc import Sequence

from tests.verb_simulation.row_verb_mutants import ROW_VERB_MUTANTS
from tests.verb_simulation.runs import plan_of, run
from tests.verb_simulation.table_verb_mutants import TABLE_VERB_MUTANTS

MUTANTS = (*ROW_VERB_MUTANTS, *TABLE_VERB_MUTANTS)


def violation_of(seed: int, verbs: Sequence[str] = ()) -> str | None:
    """The violation in the run of a seed, whose actors run only ``verbs`` if there are any."""
    return run(plan_of(seed, verbs)).violation
