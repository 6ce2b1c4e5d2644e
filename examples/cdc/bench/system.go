package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servers/process"
)

const exchange = "outbox.events"

// database is a new one for each measurement.
type database struct {
	b    *bench
	name string
	url  string
	pool *pgxpool.Pool
}

func (b *bench) newDatabase(ctx context.Context) (d database, err error) {
	d = database{b: b, name: "bench_" + strings.ReplaceAll(uuid.NewString(), "-", "")}
	if err := d.asAdmin(ctx, "CREATE DATABASE "+d.name); err != nil {
		return d, err
	}
	d.url = b.database.URL(d.name)
	if d.pool, err = pgxpool.New(ctx, d.url); err != nil {
		return d, err
	}
	return d, migrations.Schema.Migrate(ctx, d.url)
}

// prepare makes the slot, if the way has one.
func (d database) prepare(ctx context.Context, w way) error {
	if !w.slot {
		return nil
	}
	cmd := exec.CommandContext(ctx, d.b.program("cdc"), "setup") //nolint:gosec // built by this program
	cmd.Env = d.environment(nil)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func (d database) drop(ctx context.Context) {
	d.pool.Close()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	for d.asAdmin(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots") != nil && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond) // the server still ends its reader
	}
	_ = d.asAdmin(ctx, "DROP DATABASE "+d.name+" WITH (FORCE)") // in the end the server is deleted as well
}

func (d database) asAdmin(ctx context.Context, sql string) error {
	admin, err := pgxpool.New(ctx, d.b.database.URL("postgres"))
	if err != nil {
		return err
	}
	defer admin.Close()
	_, err = admin.Exec(ctx, sql)
	return err
}

func value[V any](ctx context.Context, d database, sql string, args ...any) (v V, err error) {
	err = d.pool.QueryRow(ctx, sql, args...).Scan(&v)
	return v, err
}

func (d database) awaitEmpty(ctx context.Context) error {
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		left, err := value[bool](ctx, d, "SELECT EXISTS (SELECT FROM outbox_queue)")
		if err != nil || !left {
			return err
		}
	}
	return errors.New("events are left")
}

func (d database) environment(settings []string) []string {
	return append(append(os.Environ(), "APP_ENV=demo", "DATABASE_URL="+d.url, "AMQP_URL="+d.b.broker.URL("/"),
		"HTTP_ADDR=127.0.0.1:0", "OPS_ADDR=127.0.0.1:0", "LOG_LEVEL=info"), settings...)
}

// service is a process of a program.
type service struct {
	*process.Process
	log string
}

func (b *bench) start(d database, program string, args, settings []string) (*service, error) {
	s := &service{log: filepath.Join(b.folder, program+"_"+uuid.NewString()+".log")}
	cmd := exec.Command(b.program(program), args...) //nolint:gosec,noctx // built by this program, and ended by end
	cmd.Env = d.environment(settings)
	var err error
	s.Process, err = process.Start(cmd, process.WithParent, s.log)
	return s, err
}

func (s *service) end() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_ = s.End(ctx, syscall.SIGTERM)
	_ = os.Remove(s.log)
}

// line is a line of a log.
type line struct {
	Time    time.Time `json:"time"`
	Message string    `json:"msg"`
	Address string    `json:"address"`
}

func (s *service) find(ctx context.Context, message string) (line, error) {
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		content, err := os.ReadFile(s.log)
		if err != nil {
			return line{}, err
		}
		for text := range strings.Lines(string(content)) {
			var l line
			if json.Unmarshal([]byte(text), &l) == nil && l.Message == message {
				return l, nil
			}
		}
	}
	return line{}, fmt.Errorf("the log does not have %q", message)
}

func (s *service) logged(ctx context.Context, message string) (time.Time, error) {
	l, err := s.find(ctx, message)
	return l.Time, err
}

func (s *service) address(ctx context.Context, message string) (string, error) {
	l, err := s.find(ctx, message)
	return l.Address, err
}

// emptyQueue makes a new queue for all events: the broker would still work on what an old one has.
func (b *bench) emptyQueue(ctx context.Context) error {
	conn, err := amqp.Dial(b.broker.URL("/"))
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if _, err := ch.QueueDelete("bench", false, false, false); err != nil {
		return err
	}
	return b.inSession(ctx, func(s *rabbitmq.Session) error {
		return s.Declare(rabbitmq.Topology{
			Exchanges: []rabbitmq.Exchange{{Name: exchange, Kind: "topic"}},
			Queues:    []rabbitmq.DeclaredQueue{{Name: "bench", Bindings: []rabbitmq.Binding{{Exchange: exchange, Key: "order.*"}}}},
		})
	})
}

func (b *bench) inSession(ctx context.Context, use func(*rabbitmq.Session) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_ = rabbitmq.KeepConnected(ctx, rabbitmq.Config{URL: b.broker.URL("/"), Name: "bench"}, func(_ context.Context, s *rabbitmq.Session) error {
		err = use(s)
		cancel()
		return err
	})
	return err
}
