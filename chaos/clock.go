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

// aheadSource says how far this process's clock is ahead.
const aheadSource = `package time

import "syscall"

var ahead = func() int64 {
	setting, _ := syscall.Getenv("CLOCK_AHEAD")
	d, _ := ParseDuration(setting)
	return int64(d / Second)
}()
`

// moveClocks writes a package time that adds CLOCK_AHEAD to the time of day, whoever in
// the program asks for it: the services, the libraries, the log. How long something
// takes, and timers, go by another clock of the machine, as they do where somebody has
// set the first one wrongly. It returns the file that lets the go command build with it.
func (g *ground) moveClocks(ctx context.Context) (overlay string, err error) {
	ask := exec.CommandContext(ctx, "go", "env", "GOROOT")
	ask.Dir = g.Source
	root, err := ask.Output()
	if err != nil {
		return "", err
	}
	library := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(library, "time.go")) //nolint:gosec // of Go itself
	if err != nil {
		return "", err
	}
	moved, err := moveClock(string(source))
	if err != nil {
		return "", err
	}
	replaced := map[string]string{}
	for name, content := range map[string]string{"time.go": moved, "ahead.go": aheadSource} {
		replaced[filepath.Join(library, name)] = filepath.Join(g.folder, name)
		if err := os.WriteFile(filepath.Join(g.folder, name), []byte(content), 0o600); err != nil {
			return "", err
		}
	}
	content, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(g.folder, "overlay.json")
	return overlay, os.WriteFile(overlay, content, 0o600)
}

// moveClock edits the one function that all of a program has its time of day from.
func moveClock(source string) (string, error) {
	const asked = "\tsec, nsec, mono := runtimeNow()\n"
	if n := strings.Count(source, asked); n != 1 {
		return "", fmt.Errorf("this Go's time.Now is another one: its time.go has %d of %q", n, asked)
	}
	return strings.Replace(source, asked, asked+"\tsec += ahead\n", 1), nil
}
