"""A batch of a load: its files are read, judged and written, and its rows are committed once."""
