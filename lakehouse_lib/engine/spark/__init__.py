"""The engine that runs on Spark: file tasks, scans and writes."""
