"""The commit protocol in a simulated world: real transactions, log, checkpoints and vacuum over a store in memory."""
