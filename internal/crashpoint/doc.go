// Package crashpoint names the places at which a test kills the process. The test proves that
// a crash there loses nothing.
//
// In a build without the tag "crashpoints", At is an empty function. With the tag, the process
// kills itself by SIGKILL when it reaches the point that the variable CRASH_AT names. No deferred
// function runs, and nothing is flushed. CRASH_ON limits this to one message. Or it panics at PANIC_AT,
// for each message, while the file PANIC_WHILE exists.
package crashpoint
