"""What users hold: ``DeltaTable``, its verbs and ``write_deltalake``."""
