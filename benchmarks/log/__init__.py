"""Opening, listing, pruning and scanning tables of many files beside the peers: ``python -m benchmarks.log``."""
