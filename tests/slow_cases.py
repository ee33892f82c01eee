"""Cases of a parametrized test of which only the first ones run in ``make test``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def some_slow(cases: Sequence[Any], quick: int) -> list[Any]:
    """The cases; all but the first ``quick`` of them run in ``make test-slow``.

    A case that is a tuple has a value for each argument.
    """
    return [*cases[:quick], *(_slow(case) for case in cases[quick:])]


def _slow(case: Any) -> Any:
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
