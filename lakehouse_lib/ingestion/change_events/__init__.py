"""Change events of a source, such as a stream of changes of a database, and the table that gets the source's rows."""
