package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"example.com/transactional-outbox/test/servers"
)

// demoOn runs the program on a database, and returns its output.
func demoOn(t *testing.T, url string, args ...string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "cursor")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, output)
	}
	command := exec.CommandContext(t.Context(), binary, args...)
	command.Env = append(os.Environ(), "DATABASE_URL="+url)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return string(output)
}

// TestProgramShowsWhatEachCursorMisses has concurrent writers that stall and roll back. One
// writer alone loses nothing, except the one event that is lost each time.
func TestProgramShowsWhatEachCursorMisses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, committed, missed string }{
		{"-writers 8 -transactions 100 -page 7", "722", ""},
		{"-writers 1 -transactions 1", "3", "1"},
	} {
		url := servers.Database(t)
		lines := strings.Split(demoOn(t, url, strings.Fields(test.args)...), "\n")
		if len(lines) != 4 {
			t.Fatalf("%d lines, want a head and two cursors: %q", len(lines)-1, lines)
		}
		seq := strings.Fields(strings.TrimPrefix(lines[1], "seq > last"))
		snapshot := strings.Join(strings.Fields(lines[2]), " ")
		if want := "between snapshots " + test.committed + " " + test.committed + " 0 0 0"; snapshot != want {
			t.Errorf("%q, want %q", snapshot, want)
		}
		missed, err := strconv.Atoi(seq[2])
		if err != nil || missed == 0 || test.missed != "" && seq[2] != test.missed || seq[0] != test.committed {
			t.Errorf("%s: seq > last has missed %s of %s", test.args, seq[2], seq[0])
		}
		if left := schemas(t, url); left != 0 {
			t.Errorf("%d schemas are left", left)
		}
	}
}

func schemas(t *testing.T, url string) (n int) {
	t.Helper()
	s := &system{T: t, url: url}
	s.must(s.connect().QueryRow(t.Context(),
		"SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'cursor%'").Scan(&n))
	return n
}

func TestCountsSeeEveryFault(t *testing.T) {
	t.Parallel()
	a, b := uuid.New(), uuid.New()
	a1, a2, b1 := event{1, a, 1}, event{2, a, 2}, event{3, b, 1}
	committed := []event{a1, a2, b1}
	for name, test := range map[string]struct {
		published []event
		want      count
	}{
		"all":          {[]event{a1, a2, b1}, count{read: 3}},
		"missed":       {[]event{a1, b1}, count{read: 2, missed: 1}},
		"twice":        {[]event{a1, a2, a2, b1}, count{read: 3, twice: 1}},
		"out of order": {[]event{a2, b1, a1}, count{read: 3, disordered: 1}},
		"repeated":     {[]event{a1, a2, a1, a2, b1}, count{read: 3, twice: 2}},
		"phantom":      {[]event{a1, a2, b1, {4, b, 2}}, count{read: 4}},
	} {
		if got := compare(committed, test.published); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
