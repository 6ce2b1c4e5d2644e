package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

const (
	arrivalTimeout = 30 * time.Second
	showInterval   = 50 * time.Millisecond
)

func (s *stack) databaseFlags(flags *flag.FlagSet) {
	flags.StringVar(&s.orderDB, "order-db", "", "`URL` of order-service's database, instead of the one that up uses")
	flags.StringVar(&s.notificationDB, "notification-db", "", "`URL` of notification-service's")
}

// show prints when an order's events have passed each layer, once they have.
func (s *stack) show(ctx context.Context, args []string) error {
	orderID, err := uuid.Parse(args[0])
	if err != nil {
		return fmt.Errorf("%q is no order id, which is the id in the answer to POST /orders", args[0])
	}
	databases, err := s.openDatabases(ctx)
	if err != nil {
		return err
	}
	defer databases.close()
	events, err := s.awaitArrival(ctx, databases, orderID.String())
	if err != nil {
		return err
	}
	if err := printEvents(s.out, orderID.String(), events); err != nil {
		return err
	}
	return explain(events)
}

// awaitArrival looks until nothing is left to wait for, and returns what it saw last.
func (s *stack) awaitArrival(ctx context.Context, databases *databases, orderID string) ([]event, error) {
	ctx, cancel := context.WithTimeout(ctx, arrivalTimeout)
	defer cancel()
	ticker := time.NewTicker(showInterval)
	defer ticker.Stop()
	said := ""
	for {
		events, err := databases.read(ctx, orderID)
		on := slices.IndexFunc(events, func(e event) bool { return e.missing() != nil && !e.abandoned() })
		if err != nil || on < 0 {
			return events, err
		}
		if now := fmt.Sprintf("%s is not %s yet", events[on].key, events[on].missing().name); now != said {
			s.say("waiting: %s", now)
			said = now
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return events, nil
		}
	}
}

// explain returns an error that says where the first event that has not arrived is.
func explain(events []event) error {
	for _, e := range events {
		switch missing := e.missing(); {
		case missing == nil:
		case e.abandoned():
			return fmt.Errorf("%s was not %s and will not be, because it was %s: %s", e.key, missing.name,
				cmp.Or(e.notificationStatus, e.outboxStatus), cmp.Or(e.failure, "no reason is recorded"))
		default:
			return fmt.Errorf("%s was not %s within %s: %s", e.key, missing.name, arrivalTimeout, missing.hint)
		}
	}
	return nil
}

// openDatabases connects to those that the flags name, or that up uses.
func (s *stack) openDatabases(ctx context.Context) (*databases, error) {
	order := cmp.Or(s.orderDB, s.state.Databases["order-service"])
	notification := cmp.Or(s.notificationDB, s.state.Databases["notification-service"])
	if order == "" || notification == "" {
		return nil, errors.New("the system is not up: run `go run ./scripts/stack up`, or give --order-db and --notification-db")
	}
	return connect(ctx, order, notification)
}
