"""The stored files that a table no longer needs, which vacuum deletes."""
