"""The process of a job: its command line, its parent, its private files in memory, its objects in a store."""
