package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// aheadSource reads how far the process's clock is ahead.
const aheadSource = `package time

import "syscall"

var ahead = func() int64 {
	setting, _ := syscall.Getenv("CLOCK_AHEAD")
	d, _ := ParseDuration(setting)
	return int64(d / Second)
}()
`

// writeTimeOverlay writes a package time that adds CLOCK_AHEAD to the time of day, for the
// services, their libraries and the log. Durations and timers use the monotonic clock, as on a
// machine with a wrong wall clock. It returns the overlay file for `go build`.
func (env *environment) writeTimeOverlay(ctx context.Context) (overlay string, err error) {
	ask := exec.CommandContext(ctx, "go", "env", "GOROOT")
	ask.Dir = env.Source
	root, err := ask.Output()
	if err != nil {
		return "", err
	}
	library := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(library, "time.go")) //nolint:gosec // Go's own source
	if err != nil {
		return "", err
	}
	moved, err := patchTimeNow(string(source))
	if err != nil {
		return "", err
	}
	replaced := map[string]string{}
	for name, content := range map[string]string{"time.go": moved, "ahead.go": aheadSource} {
		replaced[filepath.Join(library, name)] = filepath.Join(env.folder, name)
		if err := os.WriteFile(filepath.Join(env.folder, name), []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	content, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(env.folder, "overlay.json")
	return overlay, os.WriteFile(overlay, content, 0o600)
}

// patchTimeNow edits time.Now.
func patchTimeNow(source string) (string, error) {
	const original = "\tsec, nsec, mono := runtimeNow()\n"
	if n := strings.Count(source, original); n != 1 {
		return "", fmt.Errorf("the time.go of this Go version has %d of %q, want 1", n, original)
	}
	return strings.Replace(source, original, original+"\tsec += ahead\n", 1), nil
}
