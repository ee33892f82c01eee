"""The health of a table: metrics from its log, and a score with reasons."""

from lakehouse_lib.fleet.health.metrics import Health, health
from lakehouse_lib.fleet.health.score import Reason, Score, score

__all__ = ["Health", "Reason", "Score", "health", "score"]
