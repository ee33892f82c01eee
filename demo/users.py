"""The users of the demo's Airflow: one triggers the erasure, another approves it."""

from __future__ import annotations

ADMIN = "admin"
REQUESTER = "requester"
OFFICER = "officer"
#: Role in Airflow's simple auth manager, by user. The role ``user`` may trigger DAGs, answer questions and edit XCom.
ROLES = {ADMIN: "admin", REQUESTER: "user", OFFICER: "user"}
