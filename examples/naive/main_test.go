package main

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/env/servers"
)

// TestMain is also the program, and its children.
func TestMain(m *testing.M) {
	if os.Getenv("NAIVE_TEST") == "program" {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestTheNaiveWaysLoseWhenTheProcessIsKilled also has its control: without the kill, each way
// works.
func TestTheNaiveWaysLoseWhenTheProcessIsKilled(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		arg, prints string
		orders      int
	}{
		{"-kill=true", `
way process orders messages
store, then publish signal: killed 1 0 LOST: nobody hears of the order
publish, then store signal: killed 0 1 PHANTOM: there is no such order
publish inside the transaction signal: killed 0 1 PHANTOM: there is no such order`, 1},
		{"-kill=false", `
way process orders messages
store, then publish completed 1 1
publish, then store completed 1 1
publish inside the transaction completed 1 1`, 3},
	} {
		t.Run(test.arg, func(t *testing.T) {
			t.Parallel()
			database := servers.Database(t)
			command := exec.CommandContext(t.Context(), os.Args[0], test.arg)
			command.Env = append(os.Environ(), "NAIVE_TEST=program", "DATABASE_URL="+database,
				"AMQP_URL="+servers.BrokerURL(t))
			output, err := command.CombinedOutput()
			prints := ""
			for line := range strings.Lines(string(output)) {
				prints += "\n" + strings.Join(strings.Fields(line), " ")
			}
			if err != nil || prints != test.prints {
				t.Errorf("%v; it prints:%s\nwant:%s", err, prints, test.prints)
			}
			var orders int
			db, err := pgx.Connect(t.Context(), database)
			if err == nil {
				defer func() { _ = db.Close(context.Background()) }()
				err = db.QueryRow(t.Context(), "SELECT count(*) FROM naive.orders").Scan(&orders)
			}
			if err != nil || orders != test.orders {
				t.Errorf("%d orders in the database, want %d: %v", orders, test.orders, err)
			}
		})
	}
}
