package main

import (
	"strings"
	"testing"
)

func TestALockedRowIsLockedUntilItsRelease(t *testing.T) {
	l := newLab(t)
	must(t, execute(t.Context(), l.orderDB, things))
	release, err := l.lockRow(t.Context(), l.orderDB, "SELECT FROM things WHERE name = $1 FOR UPDATE", "held")
	must(t, err)
	const impatient = "SET lock_timeout = '100ms'"
	if err := execute(t.Context(), l.orderDB, impatient, finish); err == nil || !strings.Contains(err.Error(), "lock timeout") {
		t.Errorf("the row is not locked: %v", err)
	}
	must(t, execute(t.Context(), l.orderDB, impatient, "UPDATE things SET status = 'done' WHERE name = 'other'"))
	must(t, release(t.Context()))
	must(t, execute(t.Context(), l.orderDB, impatient, finish))
	if _, err := l.lockRow(t.Context(), l.orderDB, "SELECT FROM things WHERE name = $1 FOR UPDATE", "absent"); err == nil {
		t.Error("no row was locked, and that is no error")
	}
	must(t, l.close())
}
