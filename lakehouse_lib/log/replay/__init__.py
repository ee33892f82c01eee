"""Actions of the log reconciled into the state of a version."""
