package batch

// MaxWait is for the tests.
const MaxWait = maxWait
