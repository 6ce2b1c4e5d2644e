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
	flags.StringVar(&s.orderDB, "order-db", "", "`URL` of order-service's database; default: the one that up uses")
	flags.StringVar(&s.notificationDB, "notification-db", "", "`URL` of notification-service's")
}

// show waits until an order's e-mail is sent, and prints when its events passed each layer.
func (s *stack) show(ctx context.Context, args []string) error {
	orderID, err := uuid.Parse(args[0])
	if err != nil {
		return fmt.Errorf("%q is not an order id: use the id in the answer to POST /orders", args[0])
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

// awaitArrival waits until every event has passed all layers, and returns the last state.
func (s *stack) awaitArrival(ctx context.Context, databases *databases, orderID string) ([]event, error) {
	ctx, cancel := context.WithTimeout(ctx, arrivalTimeout)
	defer cancel()
	ticker := time.NewTicker(showInterval)
	defer ticker.Stop()
	said := ""
	for {
		events, err := databases.read(ctx, orderID)
		on := slices.IndexFunc(events, func(e event) bool { return e.missing() != nil && !e.needsOperator() })
		if err != nil || on < 0 {
			return events, err
		}
		if now := fmt.Sprintf("%s is not %s yet", events[on].topic, events[on].missing().name); now != said {
			s.logf("waiting: %s", now)
			said = now
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return events, nil
		}
	}
}

// explain returns an error with the layer that the first missing event has not passed.
func explain(events []event) error {
	for _, e := range events {
		switch missing := e.missing(); {
		case missing == nil:
		case e.needsOperator():
			return fmt.Errorf("%s was not %s and will not be, because its status is %s: %s", e.topic, missing.name,
				cmp.Or(e.emailStatus, e.outboxStatus), cmp.Or(e.failure, "no reason is recorded"))
		default:
			return fmt.Errorf("%s was not %s within %s: %s", e.topic, missing.name, arrivalTimeout, missing.hint)
		}
	}
	return nil
}

// openDatabases connects to the databases of the flags, or to those that up uses.
func (s *stack) openDatabases(ctx context.Context) (*databases, error) {
	order := cmp.Or(s.orderDB, s.state.Databases["order-service"])
	notification := cmp.Or(s.notificationDB, s.state.Databases["notification-service"])
	if order == "" || notification == "" {
		return nil, errors.New("the system is not up: run `make demo`, or give --order-db and --notification-db")
	}
	return connect(ctx, order, notification)
}
