package wal

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// watchInterval is how often the slot is looked at.
const watchInterval = 2 * time.Second

// Watch checks how much of the server's log the slot holds. The reader and each standby do this.
type Watch struct {
	Pool    *pgxpool.Pool
	Slot    string
	Max     int64 // bytes
	Feed    interface{ Drop(on bool) int }
	Metrics *Metrics
	over    bool
}

// heldSQL returns how many bytes the slot holds on the disk, and how many it has not acknowledged.
const heldSQL = `
SELECT coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint,
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn), 0)::bigint
FROM pg_replication_slots WHERE slot_name = $1`

type held struct{ disk, behind int64 }

// Run checks until ctx ends. It does not log failures: the reader logs that the database is away.
func (w *Watch) Run(ctx context.Context) error {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if h, ok := w.look(ctx); ok {
			w.Metrics.held.Set(float64(h.disk))
			w.limit(ctx, h.behind)
		}
	}
}

func (w *Watch) look(ctx context.Context) (h held, ok bool) {
	err := w.Pool.QueryRow(ctx, heldSQL, w.Slot).Scan(&h.disk, &h.behind)
	return h, err == nil // without a slot there is no row
}

// limit leaves events to the poll of the table while the slot holds too much, for example because the
// broker is away. The events are in the queue, so the slot need not hold them.
func (w *Watch) limit(ctx context.Context, behind int64) {
	over := behind > w.Max
	dropped := w.Feed.Drop(over)
	w.Metrics.dropped.Add(float64(dropped))
	if over && !w.over {
		slog.WarnContext(ctx, "the slot holds more than CDC_MAX_WAL: its events are left to the poll of the table", "bytes", behind)
	}
	w.over = over
}
