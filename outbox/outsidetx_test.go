package outbox_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestP1AppendDoesNotCompileOutsideATransaction builds testdata/outsidetx. Each line marked
// "refused" there must not compile, for the reason that the mark gives. All others must.
func TestP1AppendDoesNotCompileOutsideATransaction(t *testing.T) {
	t.Parallel()
	// -e reports all errors, not only the first ten.
	build := exec.CommandContext(t.Context(), "go", "build", "-gcflags=-e", "-o", os.DevNull, "./testdata/outsidetx")
	output, err := build.CombinedOutput()
	if err == nil {
		t.Fatal("the package compiles")
	}
	refusals := markedLines(t, "testdata/outsidetx/outsidetx.go")
	for line, reason := range refusals {
		if !reports(string(output), fmt.Sprintf("outsidetx.go:%d:", line), reason) {
			t.Errorf("line %d is not refused for %q", line, reason)
		}
	}
	if said := strings.Count(string(output), "outsidetx.go:"); len(refusals) != 6 || said != 6 || t.Failed() {
		t.Errorf("%d lines are marked and %d refused, want 6:\n%s", len(refusals), said, output)
	}
}

// markedLines returns the reasons after "// refused: ", by line number.
func markedLines(t *testing.T, path string) map[int]string {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	reasons := map[int]string{}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		if _, reason, found := strings.Cut(lines.Text(), "// refused: "); found {
			reasons[n] = reason
		}
	}
	return reasons
}

func reports(output, line, reason string) bool {
	for said := range strings.Lines(output) {
		if strings.Contains(said, line) && strings.Contains(said, reason) {
			return true
		}
	}
	return false
}
