"""The engine of this process, and the dataset it hands out."""
