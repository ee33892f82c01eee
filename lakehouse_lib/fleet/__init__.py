"""A fleet: the registry of its tables, their health, and the runs that maintain them."""
