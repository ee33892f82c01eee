"""Airflow connections: the storage options of tables, and the key of the ledger."""
