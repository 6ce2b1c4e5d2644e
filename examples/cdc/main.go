// Command cdc publishes the events of order-service's outbox. It reads them from the write-ahead
// log of PostgreSQL (change data capture), and does not poll the table.
package main

import (
	"context"

	"example.com/transactional-outbox/internal/command"
	"example.com/transactional-outbox/outbox/cdc/wal"
)

const program = "cdc"

func main() {
	command.Main(program,
		command.Command{Name: "run", Does: "publish the events of the outbox (the default)", Run: configured(run)},
		command.Command{Name: "setup", Does: "make the publication and the slot, as the owner of the tables", Run: configured(setup)},
		command.Command{Name: "drop", Does: "drop both: a slot that nobody reads fills the disk", Run: configured(drop)},
	)
}

func configured(run func(context.Context, config) error) func(context.Context, []string) error {
	return command.Configured(program, check, run)
}

func setup(ctx context.Context, c config) error { return wal.Setup(ctx, c.wal()) }

func drop(ctx context.Context, c config) error { return wal.Drop(ctx, c.wal()) }
