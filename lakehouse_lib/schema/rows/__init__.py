"""Rows that are written: their conversion to the table's columns, and the rules that each row must satisfy."""
