"""The engine that runs in this process, and tables as pyarrow datasets."""
