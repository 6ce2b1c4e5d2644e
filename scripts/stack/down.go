package main

import (
	"context"
	"fmt"
	"os"
	"strings"
)

// down ends what was started from this checkout, and says what it leaves.
func (s *stack) down(ctx context.Context, _ []string) error {
	if err := s.stopServices(ctx); err != nil {
		return err
	}
	for _, k := range kinds {
		if err := s.stopPrivate(ctx, k); err != nil {
			return fmt.Errorf("stop the private %s: %w", k.name, err)
		}
	}
	s.sayWhatIsLeft()
	return os.Remove(s.file("state.json"))
}

func (s *stack) sayWhatIsLeft() {
	for _, k := range kinds {
		if address, found := s.state.Found[k.name]; found {
			s.say("left %s at %s, which stack has not started", k.name, address)
		}
	}
	var databases []string
	for _, svc := range services {
		if _, created := s.state.Databases[svc.name]; created {
			databases = append(databases, svc.database)
		}
	}
	if len(databases) > 0 {
		s.say("left the databases %s, with all orders", strings.Join(databases, " and "))
	}
	if len(s.state.Found)+len(s.state.Private) == 0 {
		s.say("nothing is started")
	}
}
