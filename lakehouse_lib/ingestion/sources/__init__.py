"""Landing files of each format as rows."""
