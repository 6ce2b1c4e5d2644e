package servers

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"example.com/transactional-outbox/test/servers/process"
)

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
