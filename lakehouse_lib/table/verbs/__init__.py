"""The classes of the objects that ``table.alter``, ``table.merge`` and ``table.optimize`` return."""
