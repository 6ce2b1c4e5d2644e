package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// lab is the running system and the state of an experiment.
type lab struct {
	report
	machine
	settings
	orders, notifications *pgx.Conn // the services' databases, as their owners
	mail                  mailbox
	customer              string   // e-mail address of this run's orders only
	placed                []string // ids of this run's orders
	confirmed             int      // how many of them
	undo                  []func(context.Context) error
}

// maxWait limits each wait. If a lease must end first, it limits the time after that.
const maxWait = 2 * time.Minute

func open(ctx context.Context, where settings, out io.Writer) (_ *lab, err error) {
	machine, known := machines[where.mode]
	if !known {
		return nil, errors.New("nothing is running: make demo")
	}
	l := &lab{
		report: report{out: out}, machine: machine, settings: where,
		customer: "break-" + strings.ToLower(uuid.NewString()[:8]) + "@example.com",
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	if l.mail, err = openMailbox(where.mode); err != nil {
		return nil, err
	}
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	for _, service := range []string{orderService, notificationService} {
		if err := l.requireOne(ctx, service); err != nil {
			return nil, err
		}
		if err := ready(ctx, service); err != nil {
			return nil, fmt.Errorf("%s is not ready: %w; look into its log, or start again with make demo", service, err)
		}
	}
	return l, nil
}

func (l *lab) connect(ctx context.Context) (err error) {
	if l.orders, err = pgx.Connect(ctx, l.orderDB); err != nil {
		return fmt.Errorf("order-service's database: %w", err)
	}
	if l.notifications, err = pgx.Connect(ctx, l.notificationDB); err != nil {
		return fmt.Errorf("notification-service's database: %w", err)
	}
	var alone bool
	if err := l.orders.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", experimentLock).Scan(&alone); err != nil {
		return err
	}
	if !alone {
		return errors.New("another experiment is running: wait for its end")
	}
	return nil
}

// registerUndo registers a function that close calls. The returned function calls it earlier. After
// a success it is not called again.
func (l *lab) registerUndo(undo func(context.Context) error) func(context.Context) error {
	done := false
	once := func(ctx context.Context) error {
		if done {
			return nil
		}
		err := undo(ctx)
		done = err == nil
		return err
	}
	l.undo = append(l.undo, once)
	return once
}

// close undoes the changes that are not yet undone, the last one first, also after Ctrl-C.
func (l *lab) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	var errs []error
	for _, undo := range slices.Backward(l.undo) {
		if err := undo(ctx); err != nil {
			errs = append(errs, fmt.Errorf("a change was not undone: %w", err))
		}
	}
	for _, conn := range []*pgx.Conn{l.orders, l.notifications} {
		if conn != nil {
			_ = conn.Close(ctx)
		}
	}
	return errors.Join(errs...)
}

// crash kills a service. restart, or the end of the experiment, starts it again.
func (l *lab) crash(ctx context.Context, service string) (restart func(context.Context) error, err error) {
	restart = l.registerUndo(func(ctx context.Context) error {
		if _, err := command(ctx, l.start, service); err != nil {
			return err
		}
		return l.awaitReady(ctx, service)
	})
	_, err = command(ctx, l.kill, service)
	return restart, err
}

func (l *lab) awaitReady(ctx context.Context, service string) error {
	return l.await(ctx, maxWait, func(ctx context.Context) (string, error) {
		if err := ready(ctx, service); err != nil {
			return service + " is not ready: " + err.Error(), nil
		}
		return "", nil
	})
}
