"""Operators of a maintenance run, in this order: plan, maintain, summary."""
