package natstest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// programs are those that this process has built.
var programs struct {
	sync.Mutex
	folder string
	paths  map[string]string
}

// Program builds a package in a folder, once for all tests of a process, and returns the path of
// the program. It has crash points: see package crashpoint.
func Program(tb testing.TB, folder, pkg string) string {
	tb.Helper()
	programs.Lock()
	defer programs.Unlock()
	path, built := programs.paths[folder+pkg]
	if !built {
		path = filepath.Join(programs.folder, fmt.Sprint("program-", len(programs.paths)))
		build := exec.Command("go", "build", "-tags", "crashpoints", "-o", path, pkg) //nolint:gosec,noctx // the tests name it, and wait for it
		build.Dir = folder
		if output, err := build.CombinedOutput(); err != nil {
			tb.Fatalf("building %s in %s: %v\n%s", pkg, folder, err, output)
		}
		programs.paths[folder+pkg] = path
	}
	return path
}

// RunTests runs the tests of a package, and removes the programs. It is for a TestMain.
func RunTests(m *testing.M) (code int, err error) {
	programs.paths = map[string]string{}
	if programs.folder, err = os.MkdirTemp("", "natstest-"); err != nil {
		return 1, err
	}
	defer func() { _ = os.RemoveAll(programs.folder) }()
	return m.Run(), nil
}
