"""Which objects of a table must stay, and the deletion of expired log files."""
