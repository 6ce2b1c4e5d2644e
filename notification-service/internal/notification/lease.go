package notification

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// lease is how long the notifications of a process that has died stay leased. A live process
// renews its leases far more often.
const (
	lease        = 30 * time.Second
	leaseRenewal = 10 * time.Second
)

// leases are the notifications that this process has leased.
type leases struct {
	mu   sync.Mutex
	held map[uuid.UUID]struct{}
}

func (l *leases) add(id uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[id] = struct{}{}
}

func (l *leases) remove(id uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, id)
}

func (l *leases) ids() []uuid.UUID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.held))
}

// keepLeases renews the leases until ctx ends.
func (s *Service) keepLeases(ctx context.Context) error {
	tick := time.NewTicker(s.renewal)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.renew(ctx, s.leases.ids()); err != nil && ctx.Err() == nil {
				slog.WarnContext(ctx, "cannot renew leases", "error", err)
			}
		}
	}
}

// renewSQL renews only the leases that this process still has. It skips a locked row: one locked
// row must not end all leases.
const renewSQL = `
WITH mine AS MATERIALIZED (
  SELECT message_id FROM notifications
  WHERE message_id = ANY (cast(@ids AS uuid[])) AND lease_token = @token
  FOR UPDATE SKIP LOCKED
)
UPDATE notifications n SET lease_until = now() + @lease * interval '1 second'
FROM mine m WHERE n.message_id = m.message_id`

func (s *Service) renew(ctx context.Context, ids []uuid.UUID) error {
	if len(ids) == 0 {
		return nil
	}
	s.rows.Lock()
	defer s.rows.Unlock()
	ctx, cancel := context.WithTimeout(ctx, leaseRenewal/2)
	defer cancel()
	return s.db.InTx(ctx, func(tx pgx.Tx) error {
		if err := postgres.UseIndexes(ctx, tx); err != nil {
			return err
		}
		return postgres.Write(ctx, tx, "renewing leases", renewSQL, postgres.Args{"ids": bytesOf(ids), "token": s.token, "lease": lease.Seconds()})
	})
}

// bytesOf returns the ids in a form that pgx encodes without parsing text.
func bytesOf(ids []uuid.UUID) [][16]byte {
	all := make([][16]byte, 0, len(ids))
	for _, id := range ids {
		all = append(all, id)
	}
	return all
}
