package servers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"example.com/transactional-outbox/test/env/process"
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

func (f folder) writeRecord(record any) error {
	content, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return os.WriteFile(f.file("server.json"), content, 0o600)
}

const (
	// A start usually takes seconds. On a busy machine it has taken more than a minute.
	startTimeout = 3 * time.Minute

	killTimeout = 10 * time.Second
)

// awaitStart waits until the server is ready. An error has the end of the server's log.
func awaitStart(ctx context.Context, server *process.Process, f folder, probe func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := server.AwaitReady(ctx, probe); err != nil {
		return fmt.Errorf("%w; the end of %s:\n%s", err, f.log(), process.LastLines(f.log()))
	}
	return nil
}

// kill ends processes with SIGKILL, and waits until they have ended.
func kill(processes ...*process.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	var errs []error
	for _, p := range processes {
		errs = append(errs, p.Signal(syscall.SIGKILL))
	}
	for _, p := range processes {
		errs = append(errs, p.Wait(ctx))
	}
	return errors.Join(errs...)
}
