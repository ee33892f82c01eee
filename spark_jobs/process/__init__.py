"""The process of a job: it dies with its parent, reads private files from memory, and has objects in a store."""
