// Package imports_test measures what somebody gets who imports the library.
package imports_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/env/check"
)

// packages are those that a service imports to publish and to consume.
var packages = []string{"", "/inbox", "/rabbitmq"}

// TestWhatAnImporterLinks: the library brings no metrics client, no SDK and no framework.
func TestWhatAnImporterLinks(t *testing.T) {
	t.Parallel()
	library := strings.TrimSpace(run(t, folder(t), "list", "-m"))
	root := strings.TrimSuffix(library, "/outbox") + "/"
	for _, p := range packages {
		deps := strings.FieldsSeq(run(t, folder(t), "list", "-deps", library+p))
		for d := range deps {
			for _, unwanted := range []string{
				"github.com/prometheus/", "gorm.io/", "github.com/go-chi/", "go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters",
				"golang.org/x/crypto/bcrypt", "testing", "go.uber.org/goleak",
			} {
				if d == unwanted || strings.HasPrefix(d, strings.TrimSuffix(unwanted, "/")+"/") {
					t.Errorf("%s%s links %s", library, p, d)
				}
			}
			if strings.HasPrefix(d, root) && d != library && !strings.HasPrefix(d, library+"/") {
				t.Errorf("%s%s imports %s, which is not part of the library", library, p, d)
			}
			if p == "/inbox" && strings.HasPrefix(d, library) && d != library+p && !strings.HasPrefix(d, library+"/internal/") || p == "" && d == library+"/rabbitmq" {
				t.Errorf("%s%s imports %s", library, p, d)
			}
		}
	}
}

// TestHowManyLinesAnImporterGets in go.mod and go.sum. README.md says these numbers.
func TestHowManyLinesAnImporterGets(t *testing.T) {
	t.Parallel()
	const modules, sums = 22, 78 // lines of go.mod that require a module; lines of go.sum
	library := strings.TrimSpace(run(t, folder(t), "list", "-m"))
	importer := t.TempDir()
	program := "package main\n\n"
	for _, p := range packages {
		program += "import _ \"" + library + p + "\"\n"
	}
	check.Must(t, os.WriteFile(filepath.Join(importer, "main.go"), []byte(program+"\nfunc main() {}\n"), 0o600))
	check.Must(t, os.WriteFile(filepath.Join(importer, "go.mod"), []byte("module importer\n\ngo 1.26.0\n"), 0o600))
	run(t, importer, "mod", "edit", "-require", library+"@v0.0.0", "-replace", library+"="+folder(t))
	run(t, importer, "mod", "tidy")
	run(t, importer, "build", "./...")
	gotModules := lines(t, filepath.Join(importer, "go.mod"), " v")
	gotSums := lines(t, filepath.Join(importer, "go.sum"), " ")
	t.Logf("go.mod requires %d modules, go.sum has %d lines", gotModules, gotSums)
	if gotModules != modules || gotSums != sums {
		t.Errorf("go.mod requires %d modules, and go.sum has %d lines; this test and README.md say %d and %d",
			gotModules, gotSums, modules, sums)
	}
}

// folder is the library's.
func folder(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("../../../outbox")
	check.Must(t, err)
	return path
}

// lines counts the lines of a file that have this text.
func lines(t *testing.T, file, text string) (n int) {
	t.Helper()
	content, err := os.ReadFile(file)
	check.Must(t, err)
	for line := range bytes.Lines(content) {
		if bytes.Contains(line, []byte(text)) {
			n++
		}
	}
	return n
}

// run runs a command of go that succeeds, and returns its output.
func run(t *testing.T, folder string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", args...)
	c.Dir, c.Env = folder, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	return check.Run(t, c)
}
