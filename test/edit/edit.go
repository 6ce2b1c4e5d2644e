// Package edit breaks the code with small edits, in a copy of the repository. Chaos uses
// it for its mutants, and the tutorial for its exercises.
package edit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Edit replaces a text that occurs exactly once in a file.
type Edit struct{ File, Old, New string }

// Apply makes the edits in a tree, one after the other. An edit that does not match is an error:
// adapt it to the changed code.
func Apply(tree string, edits []Edit) error {
	for _, e := range edits {
		path := filepath.Join(tree, e.File)
		content, err := os.ReadFile(path) //nolint:gosec // our own folder
		if err != nil {
			return err
		}
		if n := strings.Count(string(content), e.Old); n != 1 {
			return fmt.Errorf("the edit does not apply: %s has %d of %q", e.File, n, e.Old)
		}
		changed := strings.Replace(string(content), e.Old, e.New, 1)
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil { //nolint:gosec // our own folder
			return err
		}
	}
	return nil
}
