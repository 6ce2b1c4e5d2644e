package main

import (
	"context"
	"syscall"
	"time"

	"example.com/transactional-outbox/test/servers/process"
)

const stopTimeout = 30 * time.Second

// stopServices stops the recorded services. order-service is first, so that notification-service
// can process its last events.
func (s *stack) stopServices(ctx context.Context) error {
	for _, svc := range services {
		if p := process.Find(s.state.Services[svc.name]); p != nil {
			if err := s.stopService(ctx, svc, p); err != nil {
				return err
			}
		}
		delete(s.state.Services, svc.name)
	}
	return s.save()
}

func (s *stack) stopService(ctx context.Context, svc service, p *process.Process) error {
	patient, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	if err := p.End(patient, syscall.SIGTERM); err == nil {
		s.logf("stopped %s (process %d)", svc.name, p.PID)
		return nil
	}
	if ctx.Err() != nil { // interrupted: do not kill the service
		return ctx.Err()
	}
	s.logf("%s (process %d) did not end within %s of SIGTERM: killing it", svc.name, p.PID, stopTimeout)
	return p.End(ctx, syscall.SIGKILL)
}

// stopPrivate stops a private server, and kills it after stopTimeout.
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
		s.logf("the private %s did not end within %s: killing it", k.name, stopTimeout)
	}
	if err := server.Close(); err != nil {
		return err
	}
	if running {
		s.logf("stopped the private %s; its data stays in %s", k.name, folder)
	}
	return nil
}
