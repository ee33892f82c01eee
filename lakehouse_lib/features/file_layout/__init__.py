"""How the rows of a table are laid out in its files: clustering columns, and copies of partition columns."""
