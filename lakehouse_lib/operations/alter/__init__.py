"""Changes of a table's metadata and protocol: columns, constraints, properties, features."""
