"""Shallow and deep clones of tables, and the records of the files that vacuum keeps for shallow clones."""
