// Command naive loses messages. It places an order in three ways that look right, kills the
// process in the middle of each, and then looks into the database and the queue.
//
//	naive               place one order in each way, and kill each process
//	naive -kill=false   the same, and kill no process
//
// Each order is placed by a child process. This is the same program, started again. At the
// dangerous point the child prints a line and waits. Its parent kills it there with SIGKILL, or
// lets it continue. DATABASE_URL and AMQP_URL say where PostgreSQL and RabbitMQ are.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"
)

// ways to place an order. The process is killed at dangerousPoint.
var ways = []way{
	{"store, then publish", steps{store, dangerousPoint, publish}},
	{"publish, then store", steps{publish, dangerousPoint, store}},
	{"publish inside the transaction", steps{begin, store, publish, dangerousPoint, commit}},
}

type way struct {
	name  string
	steps steps
}

type steps []func(context.Context, *shop) error

// shop has what the steps need to place one order.
type shop struct {
	db           *pgx.Conn
	ch           *amqp.Channel
	order, queue string
}

func begin(ctx context.Context, s *shop) error  { return s.exec(ctx, "BEGIN") }
func commit(ctx context.Context, s *shop) error { return s.exec(ctx, "COMMIT") }

// store inserts the order. Without a begin before it, PostgreSQL commits it at once.
func store(ctx context.Context, s *shop) error {
	return s.exec(ctx, "INSERT INTO naive.orders VALUES ($1)", s.order)
}

func (s *shop) exec(ctx context.Context, sql string, args ...any) error {
	_, err := s.db.Exec(ctx, sql, args...)
	return err
}

// publish waits until the broker has confirmed the message. Confirms do not help here.
func publish(ctx context.Context, s *shop) error {
	if err := s.ch.Confirm(false); err != nil {
		return err
	}
	m := amqp.Publishing{Body: []byte("order.created " + s.order)}
	confirm, err := s.ch.PublishWithDeferredConfirm("", s.queue, false, false, m)
	if err != nil {
		return err
	}
	acked, err := confirm.WaitContext(ctx)
	if err == nil && !acked {
		err = errors.New("the broker has refused the message")
	}
	return err
}

// dangerousPoint waits until the parent kills this process, or closes the pipe.
func dangerousPoint(context.Context, *shop) error {
	fmt.Println("at the dangerous point")
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func main() {
	kill := flag.Bool("kill", true, "kill each process at its dangerous point")
	child := flag.Bool("child", false, "place one order: WAY ORDER QUEUE")
	flag.Parse()
	if err := run(context.Background(), *kill, *child, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "naive:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kill, child bool, args []string) error {
	db, err := pgx.Connect(ctx, cmp.Or(os.Getenv("DATABASE_URL"), "not set"))
	if err != nil {
		return fmt.Errorf("DATABASE_URL: %w", err)
	}
	defer func() { _ = db.Close(ctx) }()
	broker, err := amqp.Dial(os.Getenv("AMQP_URL"))
	if err != nil {
		return fmt.Errorf("AMQP_URL: %w", err)
	}
	defer func() { _ = broker.Close() }()
	ch, err := broker.Channel()
	if err != nil {
		return fmt.Errorf("opening a channel: %w", err)
	}
	if !child {
		return experiment(ctx, &shop{db: db, ch: ch}, kill)
	}
	s := &shop{db: db, ch: ch, order: args[1], queue: args[2]}
	i := slices.IndexFunc(ways, func(w way) bool { return w.name == args[0] })
	for _, step := range ways[i].steps {
		if err := step(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// experiment places an order in each way and prints what is left of it.
func experiment(ctx context.Context, s *shop, kill bool) error {
	err := s.exec(ctx, "CREATE SCHEMA IF NOT EXISTS naive; CREATE TABLE IF NOT EXISTS naive.orders (id uuid PRIMARY KEY)")
	if err != nil {
		return fmt.Errorf("creating the table: %w", err)
	}
	const row = "%-31s %-15s %6v %8v  %s\n"
	fmt.Printf(row, "way", "process", "orders", "messages", "")
	for _, w := range ways {
		queue, err := s.ch.QueueDeclare("", false, true, true, false, nil) // it ends with this process
		if err != nil {
			return fmt.Errorf("declaring a queue: %w", err)
		}
		s.order, s.queue = uuid.NewString(), queue.Name
		end, err := s.placeInChild(ctx, w.name, kill)
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		orders, messages, err := s.count(ctx)
		if err != nil {
			return fmt.Errorf("counting: %w", err)
		}
		fmt.Printf(row, w.name, end, orders, messages, verdict(orders, messages))
	}
	return nil
}

func verdict(orders, messages int) string {
	switch {
	case orders > messages:
		return "LOST: nobody hears of the order"
	case orders < messages:
		return "PHANTOM: there is no such order"
	}
	return ""
}

// placeInChild returns how the child process has ended.
func (s *shop) placeInChild(ctx context.Context, way string, kill bool) (end string, _ error) {
	child := exec.CommandContext(ctx, os.Args[0], "-child", way, s.order, s.queue) //nolint:gosec // this program
	child.Stderr = os.Stderr
	stdin, err1 := child.StdinPipe()
	stdout, err2 := child.StdoutPipe()
	if err := errors.Join(err1, err2, child.Start()); err != nil {
		return "", err
	}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		return "", errors.Join(err, child.Wait())
	}
	if !kill {
		_ = stdin.Close() // it continues
		return "completed", child.Wait()
	}
	err := child.Process.Kill() // SIGKILL
	_ = child.Wait()            // an error, because it was killed
	return child.ProcessState.String(), err
}

// count looks for the order in the database, and for its message in the queue.
func (s *shop) count(ctx context.Context) (orders, messages int, _ error) {
	err1 := s.db.QueryRow(ctx, "SELECT count(*) FROM naive.orders WHERE id = $1", s.order).Scan(&orders)
	queue, err2 := s.ch.QueueDeclarePassive(s.queue, false, true, true, false, nil)
	return orders, queue.Messages, errors.Join(err1, err2)
}
