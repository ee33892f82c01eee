"""SQL conditions parsed into the intermediate representation."""
