package docs_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/docs"
)

// copySets are the sets of files in docs/copy-it.md, by the heads of its tables, with the number of
// files that the page states; 0 if it states none.
var copySets = []struct {
	tables []string
	files  int
}{
	{[]string{"both services", "the service that publishes"}, 30 + 28},
	{[]string{"both services", "a small consumer"}, 30 + 5},
	{[]string{"both services", "a small consumer", "the whole consumer"}, 0},
}

// TestTheFilesToCopyAreComplete builds each set as another module.
func TestTheFilesToCopyAreComplete(t *testing.T) {
	t.Parallel()
	page, err := docs.ReadFile(root, "docs/copy-it.md")
	must(t, err)
	for _, set := range copySets {
		t.Run(strings.Join(set.tables, ", "), func(t *testing.T) {
			t.Parallel()
			files := map[string]bool{}
			for _, table := range set.tables {
				listed := filesToCopy(t, page, table)
				maps.Copy(files, listed)
				if said := fmt.Sprintf("%d files", len(listed)); set.files > 0 && !states(page, said) {
					t.Errorf("%s has %s, and the page states another number", table, said)
				}
			}
			if set.files > 0 && len(files) != set.files {
				t.Errorf("%d files, want %d", len(files), set.files)
			}
			buildCopy(t, slices.Sorted(maps.Keys(files)))
		})
	}
}

func states(page docs.Page, text string) bool {
	return slices.ContainsFunc(page.Prose, func(p docs.Text) bool { return strings.HasPrefix(p.Text, text) })
}

// filesToCopy returns the files in the table with this head. A row without a folder belongs to the
// folder of the row before.
func filesToCopy(t *testing.T, page docs.Page, head string) map[string]bool {
	t.Helper()
	files := map[string]bool{}
	folder := ""
	for _, table := range page.Tables {
		if table.Head[0] != head {
			continue
		}
		for _, row := range table.Rows {
			if row.Cells[0] != "" {
				folder = strings.Trim(row.Cells[0], "`")
			}
			for _, span := range codeSpan.FindAllStringSubmatch(row.Cells[1], -1) {
				for _, name := range glob(t, filepath.Join(folder, span[1])) {
					files[name] = true
				}
			}
		}
	}
	return files
}

func glob(t *testing.T, pattern string) (names []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(root, pattern))
	must(t, err)
	for _, path := range found {
		name, err := filepath.Rel(root, path)
		must(t, err)
		if !strings.HasSuffix(name, "_test.go") {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Errorf("there is no %s", pattern)
	}
	return names
}

// buildCopy copies only these files, with another module path, and builds them.
func buildCopy(t *testing.T, files []string) {
	t.Helper()
	module := t.TempDir()
	for _, name := range append(files, "go.mod", "go.sum") {
		content, err := os.ReadFile(filepath.Join(root, name))
		must(t, err)
		content = bytes.ReplaceAll(content, []byte("example.com/transactional-outbox"), []byte("example.org/shop"))
		must(t, os.MkdirAll(filepath.Join(module, filepath.Dir(name)), 0o700))
		must(t, os.WriteFile(filepath.Join(module, name), content, 0o600))
	}
	build := exec.CommandContext(t.Context(), "go", "build", "./...")
	build.Dir = module
	if output, err := build.CombinedOutput(); err != nil {
		t.Errorf("go build: %v\n%s", err, output)
	}
}
