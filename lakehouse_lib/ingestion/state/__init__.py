"""The files that a source has loaded: settled files of folded batches, and lookups in them."""
