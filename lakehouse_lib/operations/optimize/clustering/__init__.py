"""How rows are laid out so that files can be skipped: keys, a tree over them, and the two waves that move the rows."""
