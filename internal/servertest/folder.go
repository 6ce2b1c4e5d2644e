package servertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// folder is where a server keeps everything that is its own.
type folder string

// openFolder creates the folder if it is missing, and fills record with what an
// earlier program wrote there, if it did.
func openFolder(path string, record any) (f folder, isNew bool, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", false, err
	}
	f = folder(path)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", false, err
	}
	if err := os.Chmod(path, 0o755); err != nil { // whatever the umask: a server may run as another user
		return "", false, err
	}
	content, err := os.ReadFile(f.file("server.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return f, true, nil
	}
	if err == nil {
		err = json.Unmarshal(content, record)
	}
	if err != nil {
		return "", false, fmt.Errorf("%w; remove %s, and it is created anew", err, path)
	}
	return f, false, nil
}

func (f folder) file(name string) string { return filepath.Join(string(f), name) }

func (f folder) log() string { return f.file("log") }

func (f folder) remember(record any) error {
	content, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return os.WriteFile(f.file("server.json"), content, 0o600)
}
