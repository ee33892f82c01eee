"""The layout of a clustered table: keys, a tree over the keys, and the two waves of tasks that move the rows."""
