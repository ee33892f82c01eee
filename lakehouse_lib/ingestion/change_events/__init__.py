"""Change events of a source, such as a database's change stream, applied to a table: its rows follow the source's."""
