"""All lines of the matrix."""

from __future__ import annotations

from tests.interop.matrix.column_tables import COLUMNS
from tests.interop.matrix.feature_tables import FEATURES
from tests.interop.matrix.verb_tables import VERBS

#: The functions that write the tables, in the order of docs/interop.md.
LINES = {**FEATURES, **COLUMNS, **VERBS}
