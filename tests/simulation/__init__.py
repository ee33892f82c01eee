"""The commit protocol in simulated runs: real transactions, log, checkpoints and vacuum over a store in memory."""
