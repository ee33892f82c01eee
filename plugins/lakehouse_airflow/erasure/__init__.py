"""The documents of an erasure: its plan and its request."""
