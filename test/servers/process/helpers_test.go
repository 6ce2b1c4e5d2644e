package process_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"example.com/transactional-outbox/test/servers/process"
)

func start(t *testing.T, lifetime process.Lifetime, name string, args ...string) *process.Process {
	t.Helper()
	p, err := process.Start(exec.Command(name, args...), lifetime, filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Signal(syscall.SIGKILL) })
	return p
}

func end(t *testing.T, p *process.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(shortContext(t)); err != nil {
		t.Fatal(err)
	}
}

// reportTo writes p's identity to a file atomically.
func reportTo(t *testing.T, path string, p *process.Process) {
	t.Helper()
	id, err := json.Marshal(p.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", id, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func readReport(t *testing.T, path string) *process.Process {
	t.Helper()
	var content []byte
	eventually(t, func() bool {
		content, _ = os.ReadFile(path)
		return len(content) > 0
	})
	var id process.ID
	if err := json.Unmarshal(content, &id); err != nil {
		t.Fatal(err)
	}
	p := process.Find(id)
	if p == nil {
		t.Fatal("the reported process does not run")
	}
	return p
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	ctx := shortContext(t)
	for !holds() {
		select {
		case <-ctx.Done():
			t.Fatal("the condition does not hold within 10 s")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func requireLinux(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux kills a child with its parent")
	}
}
