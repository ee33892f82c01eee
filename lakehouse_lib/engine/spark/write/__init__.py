"""Write rows by Spark's own writer, or by the library's in its workers."""
