"""Airflow connections as storage options, and as the key of the ledger."""
