"""What a table says of itself."""
