package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// mutant is a defect of the services.
type mutant struct {
	name, description string
	scenario          string // the one that must fail
	test              string // package and name of the test that must fail, if no scenario can
	edits             []edit
}

// edit replaces a text that occurs exactly once in a file.
type edit struct{ file, old, new string }

// apply makes the edits in a tree. An edit that does not match is an error: adapt the mutant to the
// changed code.
func (m mutant) apply(tree string) error {
	for _, e := range m.edits {
		path := filepath.Join(tree, e.file)
		content, err := os.ReadFile(path) //nolint:gosec // our own folder
		if err != nil {
			return err
		}
		if n := strings.Count(string(content), e.old); n != 1 {
			return fmt.Errorf("the edit does not apply: %s has %d of %q", e.file, n, e.old)
		}
		changed := strings.Replace(string(content), e.old, e.new, 1)
		if err := os.WriteFile(path, []byte(changed), 0o600); err != nil { //nolint:gosec // our own folder
			return err
		}
	}
	return nil
}

// copyTree copies the sources of the services and of their tests, and the roles and users in deploy.
func copyTree(from, to string) error {
	for _, name := range []string{"go.mod", "go.sum", "internal", "order-service", "notification-service", "test", "deploy"} {
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
	return os.WriteFile(to, content, 0o600) //nolint:gosec // our own folder
}
