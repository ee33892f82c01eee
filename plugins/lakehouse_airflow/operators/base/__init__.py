"""Base classes of the operators."""
