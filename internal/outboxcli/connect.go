package outboxcli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// Servers are what the commands connect to. Each command connects only to what it needs.
type Servers struct {
	DatabaseURL    string
	Broker         func() (publish.Destination, error) // only for republish
	ConfirmTimeout time.Duration                       // only for republish: of each batch
	AMQPURL        string                              // only for dead letters
}

// env is what a command works with.
type env struct {
	Service
	Servers
	out, progress io.Writer
	// letters calls use with the dead letters. Then it gives back those that were not removed.
	letters func(ctx context.Context, use func(context.Context, letters) error) error
	// recorder calls use with the record of decisions about dead letters.
	recorder func(ctx context.Context, use func(recorder) error) error
}

// letters are [rabbitmq.DeadLetters], without their end.
type letters interface {
	Count() int
	Next() (rabbitmq.DeadLetter, bool, error)
	Replay(ctx context.Context, l rabbitmq.DeadLetter, headers map[string]any) publish.Result
	Discard(l rabbitmq.DeadLetter) error
	Removed() error
}

// recorder is an [operate.Log].
type recorder interface {
	Begin(ctx context.Context, by operate.By, action operate.Action, items []string) (row uuid.UUID, err error)
	Finish(ctx context.Context, row uuid.UUID, done int) error
}

func newEnv(s Service, servers Servers, out, progress io.Writer) *env {
	e := &env{Service: s, Servers: servers, out: out, progress: progress}
	e.letters, e.recorder = e.openLetters, e.openRecorder
	return e
}

func (e *env) printer(asJSON bool) *printer {
	return &printer{out: e.out, masked: e.Masked, json: asJSON}
}

// sessionTimeout is how long a command waits for a server. A service waits without a limit.
const sessionTimeout = 30 * time.Second

// database runs use with the database, if it is ready.
func (e *env) database(ctx context.Context, use func(*pgxpool.Pool) error, changes ...postgres.Option) error {
	db, err := postgres.Open(ctx, e.DatabaseURL, 2, changes...)
	if err != nil {
		return err
	}
	defer db.Close()
	ready, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	if err := db.Ready(ready, e.Schema); err != nil {
		return fmt.Errorf("the database that DATABASE_URL names is not ready: %w; nothing was changed", err)
	}
	return use(db.Pool())
}

func (e *env) operator(ctx context.Context, use func(*operate.Operator) error) error {
	return e.database(ctx, func(pool *pgxpool.Pool) error { return use(operate.New(pool)) })
}

// recordTimeout is how long a statement of a record may take. Meanwhile the command holds messages.
const recordTimeout = 5 * time.Second

func (e *env) openRecorder(ctx context.Context, use func(recorder) error) error {
	return e.database(ctx, func(pool *pgxpool.Pool) error { return use(operate.NewLog(pool)) }, postgres.StatementTimeout(recordTimeout))
}

// openLetters declares nothing: only the service declares its queues.
func (e *env) openLetters(ctx context.Context, use func(context.Context, letters) error) error {
	connect := func(ctx context.Context, use func(context.Context, *rabbitmq.Session) error) error {
		return rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: e.AMQPURL, Name: e.Name + " dlq"}, use)
	}
	return onSession(ctx, sessionTimeout, connect, func(ctx context.Context, s *rabbitmq.Session) (err error) {
		found, err := s.DeadLetters(e.queue())
		if errors.Is(err, rabbitmq.ErrNoQueue) {
			return fmt.Errorf("%w; check that AMQP_URL names the right virtual host, and start the service %s: it declares its queues", err, e.Name)
		}
		if err != nil {
			return err
		}
		defer func() {
			if failed := found.Close(); err == nil {
				err = failed
			}
		}()
		return use(ctx, found)
	})
}

// onSession runs use on one session of those that connect opens. If the session breaks, it returns
// an error: the operator decides whether to run the command again.
func onSession[S any](
	ctx context.Context, timeout time.Duration, connect func(context.Context, func(context.Context, S) error) error,
	use func(context.Context, S) error,
) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := time.AfterFunc(timeout, func() {
		cancel(fmt.Errorf("the broker that AMQP_URL names gave no session within %s; the log above says why", timeout))
	})
	defer timer.Stop()
	used := false
	unused := connect(ctx, func(ctx context.Context, s S) error {
		if !timer.Stop() {
			return nil
		}
		defer cancel(nil)
		used, err = true, use(ctx, s)
		return err
	})
	if !used {
		return errors.Join(unused, context.Cause(ctx))
	}
	return err
}

// advice is what an operator can do about a message that the broker did not take.
func advice(o publish.Outcome) string {
	switch o {
	case publish.Returned:
		return "start the services that consume it: they bind their queues"
	case publish.Refused:
		return "look for a queue that is full"
	default:
		return "check that the broker runs, and that the services have declared their exchanges"
	}
}
