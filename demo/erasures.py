"""Read the record of the demo's erasure from the ledger."""

from __future__ import annotations

import json
from typing import Any

from demo.home import Home


def read_record(home: Home, request: str) -> dict[str, Any]:
    """The record of a request, without a check of its seal; empty when there is no record."""
    file = home.ledger / request / "record.json"
    return dict(json.loads(file.read_text())["document"]) if file.exists() else {}
