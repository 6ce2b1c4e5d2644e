package page

// For the tests of this package, which are outside it.
var Unread = unread
