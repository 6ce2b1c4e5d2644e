package servers

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// folder has all files of a server.
type folder string

// openFolder creates the folder if it is missing, and reads the record that an earlier program
// wrote there.
func openFolder(path string, record any) (f folder, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", err
	}
	f = folder(path)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return "", err
	}
	// Chmod is not limited by the umask. Another user must enter the folder if the server runs as
	// that user.
	if err := os.Chmod(path, 0o755); err != nil {
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
		return "", fmt.Errorf("%w; remove %s to create it again", err, path)
	}
	return f, nil
}

func (f folder) file(name string) string { return filepath.Join(string(f), name) }

func (f folder) log() string { return f.file("log") }

// logFromNow returns a function that reads what was written to a log since this call.
func logFromNow(log string) func() string {
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

func (f folder) writeRecord(record any) error {
	content, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return os.WriteFile(f.file("server.json"), content, 0o600)
}
