"""What ``table.alter``, ``table.merge`` and ``table.optimize`` return."""
