"""The terms of PROTOCOL.md: actions, deletion vectors, partition values, file paths, table properties."""
