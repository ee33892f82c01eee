"""Writing rows with Spark's own writer, or with the library's writer in Spark's Python workers.

The library's writer is used in object stores, where Spark's writer would rename files and a rename is a copy. It is
also used for writer properties that Spark's writer does not have, and for copies of partition columns.
"""

#: The name of Spark's folders in a table is ``spark_write=<uuid>``, like that of a partition.
WRITE_KEY = "spark_write"
