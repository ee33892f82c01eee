"""Who works with the demo's Airflow: one user triggers the erasure, another one answers for it."""

from __future__ import annotations

ADMIN = "admin"
REQUESTER = "requester"
OFFICER = "officer"
#: Role of Airflow's simple auth manager by user. A user may trigger, answer, and edit what is in XCom.
ROLES = {ADMIN: "admin", REQUESTER: "user", OFFICER: "user"}
