package port

// Outside is tested with ranges that this machine does not have.
var Outside = outside
