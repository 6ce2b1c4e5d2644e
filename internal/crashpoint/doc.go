// Package crashpoint names the places at which a test kills the process, to prove
// that a crash there loses nothing.
//
// A build without the tag "crashpoints" has none: At is an empty function. With it,
// the process kills itself by SIGKILL when it comes to the point that the variable
// CRASH_AT names: no deferred function runs, nothing is flushed. CRASH_ON may name the
// one message that this happens to.
package crashpoint
