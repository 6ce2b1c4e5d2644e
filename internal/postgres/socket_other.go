//go:build !linux

package postgres

import "syscall"

// setUserTimeout does nothing: other systems do not have the option, or have it under another name.
// The deadlines of transactions and the keepalives work there as well.
func setUserTimeout(_, _ string, _ syscall.RawConn) error { return nil }
