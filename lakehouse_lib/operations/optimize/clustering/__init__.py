"""The layout of a clustered table: keys, a tree over the keys, and the exchange that moves the rows."""
