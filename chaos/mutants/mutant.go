package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// mutant is a way to write the services wrongly.
type mutant struct {
	name, does string
	scenario   string // which must see it
	edits      []edit
}

// edit replaces a text that stands in a file exactly once.
type edit struct{ file, old, new string }

// apply makes the edits in a tree. One that does not fit is an error: the code has moved,
// and the mutant must move along.
func (m mutant) apply(tree string) error {
	for _, e := range m.edits {
		path := filepath.Join(tree, e.file)
		content, err := os.ReadFile(path) //nolint:gosec // a folder of our own
		if err != nil {
			return err
		}
		if n := strings.Count(string(content), e.old); n != 1 {
			return fmt.Errorf("the edit does not apply: %s has %d of %q", e.file, n, e.old)
		}
		changed := strings.Replace(string(content), e.old, e.new, 1)
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil { //nolint:gosec // a folder of our own
			return err
		}
	}
	return nil
}

// copyTree copies what the services are built from, and who they are to the servers.
func copyTree(from, to string) error {
	for _, name := range []string{"go.mod", "go.sum", "internal", "order-service", "notification-service", "postgres", "rabbitmq"} {
		source, target := filepath.Join(from, name), filepath.Join(to, name)
		info, err := os.Stat(source)
		if err != nil {
			return err
		}
		if info.IsDir() {
			err = os.CopyFS(target, os.DirFS(source))
		} else {
			err = copyFile(source, target)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	content, err := os.ReadFile(from) //nolint:gosec // of this repository
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), fs.ModePerm); err != nil {
		return err
	}
	return os.WriteFile(to, content, 0o600) //nolint:gosec // a folder of our own
}
