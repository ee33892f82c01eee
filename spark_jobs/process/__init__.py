"""The process of a job: it dies with its parent, and it reads private files from memory."""
