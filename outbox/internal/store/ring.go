package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// slots is how many tables the log has. One is current, one is empty or being emptied, and the
// others keep old events. So the current one changes slots-2 times during the retention.
const slots = 8

// lockTimeout is how long the janitor waits for a lock. Meanwhile the writers of an old slot wait
// behind it.
const lockTimeout = 100 * time.Millisecond

// ring is the state of the log.
type ring struct {
	Current, Next int
	Due           bool // the current slot has had its share of the retention
	Quiet         bool // nobody reads with a snapshot from before the last move
	Empty         bool // the next slot has been truncated, and nothing was inserted since
	Young         bool // the next slot has events that were published within the retention
}

// ringSQL locks the row: no other janitor changes it in the meantime. It is no advisory lock: with
// that, a janitor could read the row as it was before another one has changed it. With SKIP LOCKED
// there is no row if another janitor is at work. A time in the future is from a clock that was
// wrong, and counts as long ago.
const ringSQL = `
SELECT current, (current + 1) % @slots AS next,
       since <= now() - cast(@retention AS float8) * interval '1 second' / (@slots - 2) OR since > now() AS due,
       moved <= now() - least(cast(@retention AS float8) / @slots / 4, 60) * interval '1 second' OR moved > now() AS quiet,
       false AS empty, false AS young
FROM outbox_ring FOR UPDATE SKIP LOCKED`

// slotSQL looks into a slot. It names the slot's own tables, so it locks no other.
const slotSQL = `
SELECT pg_relation_size('outbox_events_%[1]d') + pg_relation_size('outbox_published_%[1]d') = 0 AS empty,
       EXISTS (SELECT FROM outbox_published_%[1]d WHERE published_at >= now() - cast(@retention AS float8) * interval '1 second') AS young`

// forgetSQL deletes the discarded events of the next slot that are old. Nothing finds them by their
// age, and there may be millions: so it reads the slot page by page, and deletes the old ones.
const forgetSQL = `
WITH page AS MATERIALIZED (
  SELECT id, discarded_at FROM outbox_discarded
  WHERE slot = @next AND id > cast(@after AS uuid) AND cast(@current AS int) IS NOT NULL
  ORDER BY slot, id LIMIT @limit FOR UPDATE SKIP LOCKED
), gone AS (
  DELETE FROM outbox_discarded WHERE id = ANY (ARRAY(
    SELECT id FROM page WHERE discarded_at < now() - cast(@retention AS float8) * interval '1 second'))
)
SELECT count(*) AS moved, coalesce((SELECT id FROM page ORDER BY id DESC LIMIT 1), cast(@after AS uuid))::text AS last FROM page`

// These select events of the next slot that have to stay: the unfinished ones, the discarded ones
// that forgetSQL has left, and those that were published within the retention. They leave out rows
// that somebody has locked; stayingSQL finds them. A published event that is not in the log of the
// slot was recorded by a repeated mark while it was moved. It is recorded a second time, where it
// is now.
const (
	stayQueuedSQL = `
  SELECT id FROM outbox_queue WHERE slot = @next AND id > cast(@after AS uuid) AND cast(@retention AS float8) IS NOT NULL
  ORDER BY id LIMIT @limit FOR NO KEY UPDATE SKIP LOCKED`
	stayDiscardedSQL = `
  SELECT id FROM outbox_discarded WHERE slot = @next AND id > cast(@after AS uuid) AND cast(@retention AS float8) IS NOT NULL
  ORDER BY slot, id LIMIT @limit FOR NO KEY UPDATE SKIP LOCKED`
	stayPublishedSQL = `
  SELECT id FROM outbox_published p
  WHERE slot = @next AND id > cast(@after AS uuid) AND published_at >= now() - cast(@retention AS float8) * interval '1 second'
    AND (SELECT id FROM outbox_events e WHERE e.slot = @next AND e.id = p.id) IS NOT NULL
  ORDER BY id LIMIT @limit`
)

// moveSQL moves all about these events to the current slot, in one statement: whoever sees the
// event in the queue sees it in the log. It finds rows by id and not by place (ctid): a row that
// was updated meanwhile has another place.
func moveSQL(stay string) string {
	const move = ` SET slot = @current WHERE slot = @next AND id = ANY (ARRAY(SELECT id FROM stay))`
	return `
WITH stay AS MATERIALIZED (` + stay + `
), queue AS (UPDATE outbox_queue` + move + `
), published AS (UPDATE outbox_published` + move + `
), discarded AS (UPDATE outbox_discarded` + move + `
), log AS (UPDATE outbox_events` + move + `
), moved AS (UPDATE outbox_ring SET moved = clock_timestamp() WHERE EXISTS (SELECT FROM stay))
SELECT count(*) AS moved, coalesce((SELECT id FROM stay ORDER BY id DESC LIMIT 1), cast(@after AS uuid))::text AS last FROM stay`
}

// stayingSQL is true if events would be lost.
const stayingSQL = `
SELECT EXISTS (SELECT FROM outbox_queue WHERE slot = @next)
    OR EXISTS (SELECT FROM outbox_discarded WHERE slot = @next)
    OR EXISTS (SELECT FROM outbox_published_%[1]d p
               WHERE published_at >= now() - cast(@retention AS float8) * interval '1 second'
                 AND (SELECT id FROM outbox_events_%[1]d e WHERE e.id = p.id) IS NOT NULL)`

// moveBatch is how many events are moved or forgotten in one transaction.
const moveBatch = 1000

// Rotate empties the next slot when its events are old, and makes it the current one when the
// current one has had its share of the retention. Each step is a transaction, and can be repeated.
// If one cannot have its locks, the error says who has them, and nothing happens: the current slot
// goes on growing.
func (s *Store) Rotate(ctx context.Context, retention time.Duration) error {
	var r *ring
	err := s.withRing(ctx, retention, func(_ pgx.Tx, now ring) error { r = &now; return nil })
	if err != nil || r == nil {
		return err
	}
	if !r.Empty && (r.Due || !r.Young) {
		if err := s.empty(ctx, retention, r.Next, r.Young); err != nil {
			return fmt.Errorf("emptying the slot %d of the outbox: %w", r.Next, s.blocked(ctx, err, r.Next))
		}
	}
	if !r.Due {
		return nil
	}
	return s.withRing(ctx, retention, func(tx pgx.Tx, r ring) error {
		if !r.Due || !r.Empty {
			return nil
		}
		_, err := tx.Exec(ctx, "UPDATE outbox_ring SET current = @next, since = now()", args{"next": r.Next})
		return err
	})
}

// withRing calls fn with the locked ring, unless another janitor has locked it.
func (s *Store) withRing(ctx context.Context, retention time.Duration, fn func(pgx.Tx, ring) error) error {
	return s.InTx(ctx, func(tx pgx.Tx) error {
		r, err := readOne(ctx, tx, ringSQL, args{"slots": slots, "retention": retention.Seconds()}, pgx.RowToStructByName[ring])
		if errors.Is(err, pgx.ErrNoRows) {
			return ringExists(ctx, tx)
		}
		if err != nil {
			return err
		}
		type slot struct{ Empty, Young bool }
		next, err := readByBitmap(ctx, tx, fmt.Sprintf(slotSQL, r.Next), args{"retention": retention.Seconds()}, pgx.RowToStructByName[slot])
		if err != nil {
			return err
		}
		r.Empty, r.Young = next.Empty, next.Young
		return fn(tx, r)
	})
}

// ringExists returns an error if the ring has no row, and nil if it is locked. Without the row
// nothing can be appended.
func ringExists(ctx context.Context, tx pgx.Tx) error {
	exists, err := readOne(ctx, tx, "SELECT EXISTS (SELECT FROM outbox_ring)", nil, pgx.RowTo[bool])
	if err == nil && !exists {
		err = errors.New("the table outbox_ring has lost its row")
	}
	return err
}

// empty forgets what was discarded, moves what has to stay, and truncates the slot. Young says that
// it has events that were published within the retention.
func (s *Store) empty(ctx context.Context, retention time.Duration, next int, young bool) error {
	steps := []string{forgetSQL, moveSQL(stayQueuedSQL), moveSQL(stayDiscardedSQL)}
	if young {
		steps = append(steps, moveSQL(stayPublishedSQL)) // otherwise it would read the whole slot to find none
	}
	for _, step := range steps {
		if err := s.move(ctx, retention, next, step); err != nil {
			return err
		}
	}
	return s.withRing(ctx, retention, func(tx pgx.Tx, r ring) error {
		if r.Next != next || !r.Quiet {
			return nil
		}
		return truncateSlot(ctx, tx, retention, next)
	})
}

// truncateSlot empties a slot unless an event has to stay in it.
//
// Writers wait while the slot is checked, and readers only while it is truncated. With the lock, no
// event of the slot can be appended or marked. Those who were at it have ended, or the lock is not
// granted. The check is another statement, so it has a newer snapshot than the lock.
func truncateSlot(ctx context.Context, tx pgx.Tx, retention time.Duration, slot int) error {
	lock := fmt.Sprintf(`SET LOCAL lock_timeout = %d;
		LOCK TABLE outbox_published_%[2]d, outbox_events_%[2]d IN SHARE ROW EXCLUSIVE MODE`, lockTimeout.Milliseconds(), slot)
	if _, err := tx.Exec(ctx, lock, pgx.QueryExecModeSimpleProtocol); err != nil {
		return err
	}
	values := args{"next": slot, "retention": retention.Seconds()}
	staying, err := readByBitmap(ctx, tx, fmt.Sprintf(stayingSQL, slot), values, pgx.RowTo[bool])
	if err != nil || staying {
		return err
	}
	_, err = tx.Exec(ctx, fmt.Sprintf("TRUNCATE outbox_published_%[1]d, outbox_events_%[1]d", slot)) // last: now readers wait
	return err
}

// move runs one of these statements for the whole slot, in batches.
func (s *Store) move(ctx context.Context, retention time.Duration, next int, statement string) error {
	type batch struct {
		Moved int
		Last  string
	}
	last := batch{Moved: moveBatch, Last: "00000000-0000-0000-0000-000000000000"}
	for last.Moved == moveBatch {
		last.Moved = 0 // if another janitor is at work, it moves the rest
		err := s.withRing(ctx, retention, func(tx pgx.Tx, r ring) (err error) {
			if r.Next != next {
				return nil
			}
			last, err = readOne(ctx, tx, statement, args{
				"current": r.Current, "next": next, "after": last.Last, "limit": moveBatch, "retention": retention.Seconds(),
			}, pgx.RowToStructByName[batch])
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// blockersSQL says who has locked the tables of a slot, the oldest first. A prepared transaction
// has no process.
const blockersSQL = `
SELECT coalesce('the prepared transaction ' || p.gid, 'process ' || l.pid || ' ' || a.application_name || ' (' || a.state || ')', 'a transaction')
       || ', ' || coalesce(round(extract(epoch FROM now() - coalesce(p.prepared, a.xact_start))) || ' s old', 'of unknown age')
FROM pg_locks l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
       ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
WHERE l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND l.relation IN ('outbox_events_%[1]d'::regclass, 'outbox_published_%[1]d'::regclass)
ORDER BY coalesce(p.prepared, a.xact_start) LIMIT 1`

// blocked adds to the error of a lock who has it.
func (s *Store) blocked(ctx context.Context, err error, slot int) error {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "55P03" { // lock_not_available
		return err
	}
	_ = s.InTx(ctx, func(tx pgx.Tx) error {
		who, askErr := readOne(ctx, tx, fmt.Sprintf(blockersSQL, slot), nil, pgx.RowTo[string])
		if askErr == nil {
			err = fmt.Errorf("%w, held by %s", err, who)
		}
		return askErr
	})
	return err
}

// readByBitmap is readOne for a query by published_at. Only a bitmap scan can use its index, which
// is a BRIN. Without it, the query reads the whole slot, which takes longer than a transaction may.
func readByBitmap[T any](ctx context.Context, tx pgx.Tx, sql string, values args, scan pgx.RowToFunc[T]) (read T, err error) {
	if _, err = tx.Exec(ctx, "SELECT set_config('enable_bitmapscan', 'on', true)"); err != nil {
		return read, err
	}
	if read, err = readOne(ctx, tx, sql, values, scan); err != nil {
		return read, err
	}
	_, err = tx.Exec(ctx, "SELECT set_config('enable_bitmapscan', 'off', true)")
	return read, err
}

func readOne[T any](ctx context.Context, tx pgx.Tx, sql string, values args, scan pgx.RowToFunc[T]) (T, error) {
	found, err := tx.Query(ctx, sql, values)
	if err != nil {
		var none T
		return none, err
	}
	return pgx.CollectExactlyOneRow(found, scan)
}
