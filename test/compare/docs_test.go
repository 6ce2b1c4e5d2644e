package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/env/check"
)

const page = "docs/what-is-lost.md"

// TestThePageHasAllDesignsAndFaults compares the page with the code, and with the module that the
// rows of other people's outboxes are built from.
func TestThePageHasAllDesignsAndFaults(t *testing.T) {
	t.Parallel()
	content, module := readFile(t, filepath.Join("..", "..", page)), readFile(t, filepath.Join("peers", "go.mod"))
	var empty strings.Builder
	check.Must(t, printTables(&empty, nil))
	var want []string
	for line := range strings.Lines(empty.String()) {
		beginning, _, _ := strings.Cut(line, "–") // of a row: the name of the design
		want = append(want, beginning)
	}
	for _, d := range designs {
		want = append(want, "\n| `"+d.name+"` | ")
		for _, path := range d.modules {
			_, after, found := strings.Cut(module, "\t"+path+" ")
			version, _, _ := strings.Cut(after, "\n")
			if want = append(want, version); !found {
				t.Errorf("peers does not require %s", path)
			}
		}
	}
	for _, f := range faults {
		want = append(want, "\n| `"+f.name+"` | "+f.description+" |\n")
	}
	for _, text := range want {
		if !strings.Contains(content, text) {
			t.Errorf("%s does not have %q", page, text)
		}
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	check.Must(t, err)
	return string(content)
}
