package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// down stops everything that was started from this checkout, and prints what it keeps.
func (s *stack) down(ctx context.Context, _ []string) error {
	if err := s.stopServices(ctx); err != nil {
		return err
	}
	for _, k := range kinds {
		if err := s.stopPrivate(ctx, k); err != nil {
			return fmt.Errorf("stop the private %s: %w", k.name, err)
		}
	}
	s.logRemaining()
	return os.Remove(s.path("state.json"))
}

func (s *stack) logRemaining() {
	for _, k := range kinds {
		if address, found := s.state.Found[k.name]; found {
			s.logf("%s at %s keeps running: stack has not started it", k.name, address)
		}
	}
	var databases []string
	for _, svc := range services {
		if _, created := s.state.Databases[svc.name]; created {
			databases = append(databases, svc.database)
		}
	}
	if len(databases) > 0 {
		s.logf("the databases %s stay, with all orders", strings.Join(databases, " and "))
	}
	if len(s.state.Found)+len(s.state.Private) == 0 {
		s.logf("nothing was started")
	}
}
