//go:build crashpoints

package crashpoint

import (
	"os"
	"slices"
	"syscall"
)

// At kills the process when CRASH_AT is this point, and CRASH_ON is not set or one of
// those that are there.
func At(point string, there ...string) {
	on := os.Getenv("CRASH_ON")
	if os.Getenv("CRASH_AT") == point && (on == "" || slices.Contains(there, on)) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // the signal is on its way; nothing more may happen
	}
}
