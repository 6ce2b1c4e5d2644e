package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"example.com/transactional-outbox/test/servers/process"
)

const readyTimeout = 60 * time.Second

// awaitReady waits until /readyz of the service answers 200.
func (s *stack) awaitReady(ctx context.Context, svc service, p *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if err := p.AwaitReady(ctx, svc.probe); err != nil {
		return fmt.Errorf("%s did not become ready: %w; the end of %s:\n%s\n"+
			"fix the error and run up again, or run down",
			svc.name, err, s.logPath(svc), process.LastLines(s.logPath(svc)))
	}
	s.logf("%s is ready: http://%s/readyz (process %d, log %s)", svc.name, svc.ops, p.PID, s.logPath(svc))
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
