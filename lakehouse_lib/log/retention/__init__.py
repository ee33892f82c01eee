"""The objects of a table that must not be deleted, and the deletion of expired log files."""
