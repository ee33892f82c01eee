"""The engine of a Spark session: file tasks, scans and writes."""
