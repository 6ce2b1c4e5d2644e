//go:build crashpoints

package crashpoint

import (
	"os"
	"slices"
	"syscall"
)

// At kills the process if CRASH_AT is this point, and CRASH_ON is not set or is one of the ids. It
// panics if PANIC_AT is this point, while the file of PANIC_WHILE exists.
func At(point string, ids ...string) {
	if _, err := os.Stat(os.Getenv("PANIC_WHILE")); os.Getenv("PANIC_AT") == point && err == nil {
		panic("PANIC_AT " + point)
	}
	crashID := os.Getenv("CRASH_ON")
	if os.Getenv("CRASH_AT") == point && (crashID == "" || slices.Contains(ids, crashID)) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // until the signal arrives, nothing more may happen
	}
}
