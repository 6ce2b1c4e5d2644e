package consumer

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// steps records what happened, in order.
type steps struct {
	noting sync.Mutex
	done   []string
}

func (s *steps) note(step string) {
	s.noting.Lock()
	defer s.noting.Unlock()
	s.done = append(s.done, step)
}

func (s *steps) count(step string) (n int) {
	s.noting.Lock()
	defer s.noting.Unlock()
	for _, done := range s.done {
		if done == step {
			n++
		}
	}
	return n
}

// fakeEffect keeps the states of its notifications. The test chooses where it fails.
type fakeEffect struct {
	*steps
	parse     func() error
	record    func(requests []notification.Request) error
	send      func(ctx context.Context, n notification.Notification) error
	mark      func(ctx context.Context, n notification.Notification) error
	release   func()
	elsewhere bool // another process has every lease

	mu     sync.Mutex
	states map[uuid.UUID]notification.Status
}

func (f *fakeEffect) Parse(m rabbitmq.Message) (notification.Event, error) {
	f.note("parse")
	e := notification.Event{Key: m.Type, CustomerEmail: m.ID}
	if f.parse == nil {
		return e, nil
	}
	return e, f.parse()
}

func (f *fakeEffect) Record(_ context.Context, _ pgx.Tx, requests []notification.Request) (all []notification.Notification, err error) {
	f.note("record")
	if f.record != nil {
		if err := f.record(requests); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range requests {
		n := notification.Notification{MessageID: r.ID, Recipient: r.Event.CustomerEmail, Event: r.Event, Status: f.states[r.ID]}
		if n.Status == "" || n.Status == notification.Pending {
			n.Status, n.HasLease = notification.Sending, !f.elsewhere
		}
		all = append(all, n)
	}
	return all, nil
}

func (*fakeEffect) AfterCommit(notification.Notification) {}

func (f *fakeEffect) Send(ctx context.Context, n notification.Notification) error {
	f.note("send")
	f.mu.Lock()
	send := f.send
	f.mu.Unlock()
	if send != nil {
		if err := send(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeEffect) MarkSent(ctx context.Context, n notification.Notification) error {
	if f.mark != nil {
		if err := f.mark(ctx, n); err != nil {
			return err
		}
	}
	f.set(n.MessageID, notification.Sent)
	return nil
}

func (f *fakeEffect) Release(context.Context, uuid.UUID) {
	if f.release != nil {
		f.release()
	}
	f.note("release")
}

func (f *fakeEffect) Reject(_ context.Context, id uuid.UUID, _ string) error {
	f.note("reject")
	f.set(id, notification.Rejected)
	return nil
}

func (*fakeEffect) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (f *fakeEffect) set(id uuid.UUID, s notification.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.states[id] = s
}

// sends makes every e-mail end like this.
func (f *fakeEffect) sends(fail func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.send = func(context.Context, notification.Notification) error { return fail() }
}

// fakePublisher keeps the copies.
type fakePublisher struct {
	*steps
	fail func() error
	only string // the exchange that fails; "": all

	mu     sync.Mutex
	copies []rabbitmq.Message
}

func (f *fakePublisher) Publish(_ context.Context, m rabbitmq.Message) error {
	f.note("copy")
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil && (f.only == "" || f.only == m.Exchange) {
		if err := f.fail(); err != nil {
			return err
		}
	}
	f.copies = append(f.copies, m)
	return nil
}

// fails makes every copy end like this.
func (f *fakePublisher) fails(fail func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

// times returns err n times.
func times(n int, err error) func() error {
	return func() error {
		if n == 0 {
			return nil
		}
		n--
		return err
	}
}

func always(err error) func() error { return func() error { return err } }

func panics() error { panic("a bug") }

var errFailed = errors.New("it failed")

type permanent struct{ error }

func (permanent) DeadLetterCode() string { return "no-hope" }

type mailAwayError struct{ error }

func (mailAwayError) Dependency() string { return "mail" }

// mailBrokenError is a mailAwayError that may be one message's own.
type mailBrokenError struct{ mailAwayError }

func (mailBrokenError) OwnFault() error { return errFailed }

type mailUnclearError struct{ error }

func (mailUnclearError) Dependency() string  { return "mail" }
func (mailUnclearError) MessageError() error { return permanent{errFailed} }

type deferredError struct{ error }

func (deferredError) Deferred() {}
