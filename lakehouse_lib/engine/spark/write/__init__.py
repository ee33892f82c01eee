"""Writing rows with Spark's own writer, or with the library's writer in Spark's Python workers."""
