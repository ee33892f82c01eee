"""Filters for the warnings of Great Expectations' own imports and models."""

from __future__ import annotations

import pytest

SUITE_WARNINGS = (
    pytest.mark.filterwarnings("ignore:module 'sre_constants' is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:great_expectations"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:marshmallow"),
)
