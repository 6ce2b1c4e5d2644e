package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/docs"
)

const page = "docs/what-is-lost.md"

// TestTheTableHasAllDesignsAndFaults compares the tables of the page with the code.
func TestTheTableHasAllDesignsAndFaults(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..")
	content, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	var empty strings.Builder
	if err := printTables(&empty, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := names(string(content)), names(empty.String()); !slices.Equal(got, want) {
		t.Errorf("%s has the designs and faults\n%q, and the code has\n%q", page, got, want)
	}
	parsed, err := docs.ReadFile(root, page)
	if err != nil {
		t.Fatal(err)
	}
	explained := firstColumn(parsed, "design")
	for _, d := range designs {
		if !slices.Contains(explained, d.name) {
			t.Errorf("%s does not say what %s is", page, d.name)
		}
	}
	faultsExplained := firstColumn(parsed, "fault")
	for _, f := range faults {
		if !slices.Contains(faultsExplained, f.name) {
			t.Errorf("%s does not say what %s is", page, f.name)
		}
	}
}

// names returns the heads of the generated tables, and the first cells of their rows.
func names(markdown string) (all []string) {
	inTable := false
	for line := range strings.Lines(markdown) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		first := strings.TrimPrefix(cells[0], "| ")
		switch {
		case strings.HasPrefix(line, "| the order side |"), strings.HasPrefix(line, "| the consumer side |"):
			inTable = true
			all = append(all, strings.Trim(strings.Join(cells, " "), "| "))
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case inTable && !strings.HasPrefix(line, "|--"):
			all = append(all, first)
		}
	}
	return all
}

// firstColumn returns the first cells of the table with this head.
func firstColumn(p docs.Page, head string) (cells []string) {
	for _, table := range p.Tables {
		if table.Head[0] == head {
			for _, row := range table.Rows {
				cells = append(cells, strings.Trim(row.Cells[0], "`"))
			}
		}
	}
	return cells
}

// TestThePageHasTheVersions compares the page with the module that the rows of other people's
// outboxes are built from.
func TestThePageHasTheVersions(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join("..", "..", page))
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join("peers", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range designs {
		for _, path := range d.modules {
			_, after, found := strings.Cut(string(module), "\t"+path+" ")
			version, _, _ := strings.Cut(after, "\n")
			if !found || !strings.Contains(string(content), version) {
				t.Errorf("%s does not name the version %q of %s", page, version, path)
			}
		}
	}
}
