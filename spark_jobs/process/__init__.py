"""The process of a job: it dies with its parent, reads private files from memory, and shows in a store that it runs."""
