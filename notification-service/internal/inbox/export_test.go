package inbox

// PruneSQL is pruneSQL, for the tests.
const PruneSQL = pruneSQL
