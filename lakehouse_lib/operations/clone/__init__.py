"""Shallow and deep clones of tables, and the records by which vacuum keeps the files of shallow clones."""
