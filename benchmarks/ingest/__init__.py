"""Time loads of source files beside plain Spark: `make bench-ingest`."""
