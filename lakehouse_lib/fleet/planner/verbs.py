"""The verbs of the planner."""

from __future__ import annotations

from typing import Literal, get_args

Verb = Literal["optimize", "z_order", "compute_statistics", "checkpoint", "vacuum", "cleanup"]

#: All verbs of the planner.
VERBS: tuple[Verb, ...] = get_args(Verb)
