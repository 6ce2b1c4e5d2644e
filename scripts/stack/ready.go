package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"example.com/transactional-outbox/internal/servertest/process"
)

const readyTimeout = 60 * time.Second

// awaitReady returns when the service says that it can serve.
func (s *stack) awaitReady(ctx context.Context, svc service, p *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := p.AwaitReady(ctx, svc.probe); err != nil {
		return fmt.Errorf("%s did not become ready: %w; the end of %s:\n%s\n"+
			"remedy what it says and run up again, or down to end what has been started",
			svc.name, err, s.logOf(svc), process.LastLines(s.logOf(svc)))
	}
	s.say("%s is ready: http://%s/readyz (process %d, log %s)", svc.name, svc.ops, p.PID, s.logOf(svc))
	return nil
}

func (svc service) probe(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+svc.ops+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/readyz answers %s", response.Status)
	}
	return nil
}
