"""Add table features, drop them, and make what they require: row ids, files without column mapping, no old versions."""
