package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// ErrLargeDefault means that the default partition is too large to make others. To make one,
// PostgreSQL reads the whole default partition, and orders wait meanwhile.
var ErrLargeDefault = errors.New("the default partition of the outbox is too large to make others, " +
	"so new events go there too; the tables' owner can call outbox_empty_default()")

// MakePartition makes the next partition of the log, unless the existing ones cover two widths from
// now. It returns the new one's name, or "".
func (s *Store) MakePartition(ctx context.Context, width time.Duration) (made string, err error) {
	name, err := s.callForName(ctx, "SELECT outbox_make_partition(@seconds * interval '1 second')", width)
	if err == nil && name == nil {
		err = ErrLargeDefault
	}
	if err != nil {
		return "", fmt.Errorf("making a partition: %w", err)
	}
	return *name, nil
}

// DropPartition drops the oldest partition if it ended longer than retention ago. It returns its
// name, or "". Events in it that have to stay move to the default partition.
func (s *Store) DropPartition(ctx context.Context, retention time.Duration) (dropped string, err error) {
	name, err := s.callForName(ctx, "SELECT coalesce(outbox_drop_partition(@seconds * interval '1 second'), '')", retention)
	if err != nil {
		return "", fmt.Errorf("dropping a partition: %w", err)
	}
	return *name, nil
}

func (s *Store) callForName(ctx context.Context, statement string, d time.Duration) (name *string, err error) {
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		name, err = postgres.ReadOne(ctx, tx, statement, postgres.Args{"seconds": d.Seconds()}, pgx.RowTo[*string])
		return err
	})
	return name, err
}

const (
	// partitionsPerRetention bounds the number of partitions. With those that are made ahead there
	// are a dozen: few enough for a statement that looks into each. A partition is dropped when
	// its last event is old. So events stay up to an eighth longer than the retention.
	partitionsPerRetention = 8
	// minPartitionWidth keeps a short retention from making and dropping partitions all the time.
	minPartitionWidth = time.Hour
)

// managePartitions makes the missing partitions and drops the old ones. It returns false if it
// could not drop an old one now, because a long transaction reads it.
func (s *Store) managePartitions(ctx context.Context, retention time.Duration) (dropped bool) {
	_ = repeat(ctx, "make", func() (string, error) {
		return s.MakePartition(ctx, max(retention/partitionsPerRetention, minPartitionWidth))
	})
	return repeat(ctx, "drop", func() (string, error) {
		return s.DropPartition(ctx, retention)
	}) == nil
}

// repeat calls do until there is nothing left to do.
func repeat(ctx context.Context, step string, do func() (string, error)) error {
	for {
		name, err := do()
		if err != nil && ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot change the outbox's partitions, trying again in a minute", "step", step, "error", err)
		}
		if err != nil || name == "" {
			return err
		}
		slog.InfoContext(ctx, "changed the outbox's partitions", "step", step, "partition", name)
	}
}
