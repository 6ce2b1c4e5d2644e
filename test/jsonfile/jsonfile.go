// Package jsonfile writes results as JSON files.
package jsonfile

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// Write writes a value as indented JSON, and creates the folder of the file.
func Write(path string, value any) error {
	content, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // everybody may read it
		return err
	}
	return os.WriteFile(path, append(content, '\n'), 0o644) //nolint:gosec // everybody may read it
}
