package main

import (
	"context"
	"path/filepath"

	"github.com/prometheus/procfs"

	"example.com/transactional-outbox/test/env/services"
	"example.com/transactional-outbox/test/suite"
)

// serve starts a command of a service with additional settings, and returns when it has a session
// with the broker.
func (b *bench) serve(ctx context.Context, name, command string, d database, settings ...string) (*services.Process, error) {
	settings = append([]string{"DATABASE_URL=" + d.url, "AMQP_URL=" + d.broker}, settings...)
	return b.start(ctx, name, command, services.ConnectedToBroker, settings...)
}

// start starts a program, and returns when it has logged a message.
func (b *bench) start(ctx context.Context, name, command, message string, settings ...string) (*services.Process, error) {
	s, err := services.Start(filepath.Join(b.Folder, name), command, filepath.Join(b.Folder, b.newName()+".log"), settings...)
	if err != nil {
		return s, err
	}
	if _, err := s.Await(ctx, message); err != nil {
		end(s) //nolint:contextcheck // cleanup must also run after ctx has ended
		return s, err
	}
	return s, nil
}

// end sends SIGTERM and waits for the end of the process.
func end(s *services.Process) {
	if _, err := s.Stop(context.Background()); err != nil {
		suite.Progress("%v", err)
	}
}

// residentMiB returns the resident memory of the process.
func residentMiB(s *services.Process) (float64, error) {
	p, err := procfs.NewProc(s.PID)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	return float64(stat.ResidentMemory()) / (1 << 20), err
}
