//go:build !linux

package postgres

import "syscall"

// boundUnanswered changes nothing: other systems do not have the option, or have it under
// another name. The deadlines of transactions and the keepalives hold there as well.
func boundUnanswered(_, _ string, _ syscall.RawConn) error { return nil }
