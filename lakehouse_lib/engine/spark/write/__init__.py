"""Writing rows with Spark's own writer, or with the library's writer in Spark's Python workers.

Spark's own writer is used where a rename is cheap, the other in object stores, where a rename is a copy.
"""

#: The name of Spark's folders in a table is ``spark_write=<uuid>``, like that of a partition.
WRITE_KEY = "spark_write"
