package port

// Outside lets a test use ranges that this machine does not have.
var Outside = outside
