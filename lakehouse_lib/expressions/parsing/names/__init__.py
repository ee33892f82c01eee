"""Names in SQL: columns, quoted names and types."""
