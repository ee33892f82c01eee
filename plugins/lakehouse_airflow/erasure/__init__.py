"""The documents of an erasure in the ledger: its plan, its keys, and the approved request."""
