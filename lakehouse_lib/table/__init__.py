"""The interface for users: ``DeltaTable``, its verbs and ``write_deltalake``."""
