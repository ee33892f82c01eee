"""What a source has loaded: the settled files of folded batches, and lookups in them."""
