package main_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/servers"
)

// naive runs the program on a database of its own, and returns its lines, with one space between
// two columns, and how many orders are in the database afterwards.
func naive(t *testing.T, args ...string) (lines []string, orders int) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "naive")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-race", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, output)
	}
	database := servers.Database(t)
	command := exec.CommandContext(t.Context(), binary, args...)
	command.Env = append(os.Environ(), "DATABASE_URL="+database, "AMQP_URL="+servers.BrokerURL(t))
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for line := range strings.Lines(string(output)) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	db, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.WithoutCancel(t.Context())) }()
	if err := db.QueryRow(t.Context(), "SELECT count(*) FROM naive.orders").Scan(&orders); err != nil {
		t.Fatal(err)
	}
	return lines, orders
}

// TestTheNaiveWaysLoseWhenTheProcessIsKilled also has its control: without the kill, each way
// works.
func TestTheNaiveWaysLoseWhenTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args   []string
		orders int
		lines  [3]string
	}{
		"killed": {nil, 1, [3]string{
			"store, then publish signal: killed 1 0 LOST: nobody hears of the order",
			"publish, then store signal: killed 0 1 PHANTOM: there is no such order",
			"publish inside the transaction signal: killed 0 1 PHANTOM: there is no such order",
		}},
		"not killed": {[]string{"-kill=false"}, 3, [3]string{
			"store, then publish completed 1 1",
			"publish, then store completed 1 1",
			"publish inside the transaction completed 1 1",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines, orders := naive(t, test.args...)
			if got, want := strings.Join(lines[1:], "\n"), strings.Join(test.lines[:], "\n"); got != want {
				t.Errorf("it prints:\n%s\nwant:\n%s", got, want)
			}
			if orders != test.orders {
				t.Errorf("%d orders in the database, want %d", orders, test.orders)
			}
		})
	}
}
