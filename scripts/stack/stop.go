package main

import (
	"context"
	"syscall"
	"time"

	"example.com/transactional-outbox/internal/servertest/process"
)

const stopTimeout = 30 * time.Second

// stopServices ends the services that are recorded, in the order in which orders pass
// them, so that the later one can finish what the earlier one sent.
func (s *stack) stopServices(ctx context.Context) error {
	for _, svc := range services {
		if p := process.Find(s.state.Services[svc.name]); p != nil {
			if err := s.end(ctx, svc, p); err != nil {
				return err
			}
		}
		delete(s.state.Services, svc.name)
	}
	return s.save()
}

func (s *stack) end(ctx context.Context, svc service, p *process.Process) error {
	patient, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := p.End(patient, syscall.SIGTERM); err == nil {
		s.say("stopped %s (process %d)", svc.name, p.PID)
		return nil
	}
	if ctx.Err() != nil { // interrupted: whoever did it may want the service alive
		return ctx.Err()
	}
	s.say("%s (process %d) has not ended within %s of SIGTERM: killing it", svc.name, p.PID, stopTimeout)
	return p.End(ctx, syscall.SIGKILL)
}

// stopPrivate gives the server time to write its data, and then ends what is left of it.
func (s *stack) stopPrivate(ctx context.Context, k kind) error {
	folder, recorded := s.state.Private[k.name]
	if !recorded {
		return nil
	}
	server, err := k.open(folder)
	if err != nil {
		return err
	}
	running := server.Running()
	patient, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := server.Stop(patient); ctx.Err() != nil {
		return ctx.Err()
	} else if err != nil {
		s.say("the private %s has not ended within %s: killing it", k.name, stopTimeout)
	}
	if err := server.Close(); err != nil {
		return err
	}
	if running {
		s.say("stopped the private %s; its data stays in %s", k.name, folder)
	}
	return nil
}
