"""Clones of tables: shallow and deep, and the records by which vacuum spares the files of shallow clones."""
