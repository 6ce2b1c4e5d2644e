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
func openFolder(path string, record any) (f folder, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", err
	}
	f = folder(path)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", err
	}
	if err := os.Chmod(path, 0o755); err != nil { // whatever the umask: a server may run as another user
		return "", err
	}
	content, err := os.ReadFile(f.file("server.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err == nil {
		err = json.Unmarshal(content, record)
	}
	if err != nil {
		return "", fmt.Errorf("%w; remove %s, and it is created anew", err, path)
	}
	return f, nil
}

func (f folder) file(name string) string { return filepath.Join(string(f), name) }

func (f folder) log() string { return f.file("log") }

// fromHere returns what is written to a log from now on, each time it is asked.
func fromHere(log string) func() string {
	begin := int64(0)
	if info, err := os.Stat(log); err == nil {
		begin = info.Size()
	}
	return func() string {
		content, err := os.ReadFile(log)
		if err != nil || int64(len(content)) < begin {
			return ""
		}
		return string(content[begin:])
	}
}

func (f folder) remember(record any) error {
	content, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return os.WriteFile(f.file("server.json"), content, 0o600)
}
