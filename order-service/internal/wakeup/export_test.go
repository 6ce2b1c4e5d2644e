package wakeup

// NewNotifierWith returns a notifier that calls a test's function.
var NewNotifierWith = newNotifier
