package outbox_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// backlogSize is how many failed events, and how many pending ones, the cost test of the page has:
// go test ./order-service/internal/outbox -run TestAPageReads -backlog 1000000 -v.
var backlogSize = flag.Int("backlog", 60_000, "failed events and pending events of the page's cost test")

const failManySQL = `
WITH event AS (
  INSERT INTO outbox_events (id, aggregate_type, aggregate_id, aggregate_version, event_key, payload)
  SELECT rpad(lpad(to_hex(i), 12, '0'), 32, 'a')::uuid, 'order', rpad(lpad(to_hex(i), 12, '0'), 32, 'b')::uuid, 1,
         CASE WHEN i % 10000 = 9 THEN 'order.cancelled' ELSE 'order.created' END, jsonb_build_object('text', repeat('x', 300))
  FROM generate_series(cast(? AS int), cast(? AS int)) i
  RETURNING *
)
INSERT INTO outbox_queue (id, seq, aggregate_type, aggregate_id, aggregate_version, event_key, bytes, available_at,
                          retry_count, failure_reason, failure_code, failed_at)
SELECT id, seq, aggregate_type, aggregate_id, aggregate_version, event_key, 300, 'infinity', 20, 'a queue refused it',
       CASE WHEN seq % 10000 = 7 THEN 'too_large' ELSE 'refused' END,
       timestamptz '2020-01-01 00:00:00Z' + seq * interval '1 second' FROM event`

// failedAt is when an event has failed.
func failedAt(nth int) time.Time {
	return time.Date(2020, time.January, 1, 0, 0, nth, 0, time.UTC)
}

// failMany inserts n failed events: most of one reason and key, and a few of others.
func (f fixture) failMany(n int) {
	f.Helper()
	const batch = 50_000 // a transaction of the test may take a minute
	for first := 1; first <= n; first += batch {
		f.exec(failManySQL, first, min(first+batch-1, n))
	}
	f.vacuum()
}

// appendNewerSQL inserts pending events. Their ids are after those of failMany, as those of newer
// events are.
var appendNewerSQL = insertSQL(`SELECT rpad(lpad(to_hex(100000000 + i), 12, '0'), 32, 'a')::uuid, 'order', gen_random_uuid(), 1,
	'order.confirmed', '{}' FROM generate_series(cast(? AS int), cast(? AS int)) i`, "now()")

// appendNewer inserts n pending events.
func (f fixture) appendNewer(n int) {
	f.Helper()
	const batch = 50_000
	for first := 1; first <= n; first += batch {
		f.exec(appendNewerSQL, first, min(first+batch-1, n))
	}
	f.vacuum()
}

// queries are what the page asks for, with the most blocks that one may read of any backlog. A page
// has 50 rows, and each is read from the queue and from the log.
var queries = map[string]struct {
	most int
	ask  func(context.Context, *outbox.Operator) error
}{
	"the groups": {300, func(ctx context.Context, o *outbox.Operator) error { // it counts up to 10,000 of each
		_, _, err := o.Failures(ctx)
		return err
	}},
	"the first page": {600, findPage(outbox.Filter{}, outbox.Place{})},
	"a later page":   {600, findPage(outbox.Filter{}, outbox.Place{FailedAt: failedAt(2816)})},
	"the list of a filter": {900, func(ctx context.Context, o *outbox.Operator) error { // all that its page asks for
		if _, _, err := o.Failures(ctx); err != nil {
			return err
		}
		now, err := o.Now(ctx)
		if err != nil {
			return err
		}
		return findPage(outbox.Filter{Before: now.Add(-time.Hour)}, outbox.Place{})(ctx, o)
	}},
	"a later page of a kind":   {600, findPage(outbox.Filter{FailureCode: "refused", EventKey: "order.created"}, outbox.Place{FailedAt: failedAt(40_000)})},
	"a page of a time range":   {600, findPage(outbox.Filter{From: failedAt(20_000), Before: failedAt(40_000)}, outbox.Place{})},
	"a page of an unknown key": {60, findPage(outbox.Filter{EventKey: "order.lost"}, outbox.Place{})},
	"the rows of a preview":    {600, findPage(outbox.Filter{IDs: manyIDs(20)}, outbox.Place{})},
	"a preview of rows":        {600, choose(outbox.Filter{IDs: manyIDs(50)})},
	"a preview of a range":     {2000, choose(outbox.Filter{From: failedAt(10_000)})},
	"a preview of an order":    {60, choose(outbox.Filter{AggregateType: "order", AggregateID: uuid.MustParse("00000000-0b00-bbbb-bbbb-bbbbbbbbbbbb")})},
	"a page of a reason":       {600, findPage(outbox.Filter{FailureCode: "too_large"}, outbox.Place{})},
	"a page of a key":          {600, findPage(outbox.Filter{EventKey: "order.cancelled"}, outbox.Place{})},
	"a page of both":           {600, findPage(outbox.Filter{FailureCode: "refused", EventKey: "order.created"}, outbox.Place{})},
	"a time range without any": {60, findPage(outbox.Filter{Before: failedAt(0)}, outbox.Place{})},
	"the newest of a key":      {600, findPage(outbox.Filter{EventKey: "order.created", From: failedAt(50_000)}, outbox.Place{})},
	"an order's events":        {60, findPage(outbox.Filter{AggregateType: "order", AggregateID: uuid.MustParse("00000000-0b00-bbbb-bbbb-bbbbbbbbbbbb")}, outbox.Place{})},
	"one event":                {60, findPage(outbox.Filter{ID: uuid.MustParse("00000000-0b00-aaaa-aaaa-aaaaaaaaaaaa")}, outbox.Place{})},
	"a preview of all of it":   {2000, choose(outbox.Filter{FailureCode: "refused"})}, // it counts up to 50,000
	"a preview of few":         {60, choose(outbox.Filter{FailureCode: "too_large"})},
	"one event's page": {100, func(ctx context.Context, o *outbox.Operator) error {
		_, err := o.Show(ctx, uuid.MustParse("00000000-0b00-aaaa-aaaa-aaaaaaaaaaaa"))
		return err
	}},
	"one order's way": {60, func(ctx context.Context, o *outbox.Operator) error {
		_, err := o.Way(ctx, "order", uuid.MustParse("00000000-0b00-bbbb-bbbb-bbbbbbbbbbbb"))
		return err
	}},
	"the order of a message": {20, func(ctx context.Context, o *outbox.Operator) error {
		_, err := o.Locate(ctx, uuid.MustParse("00000000-0b00-aaaa-aaaa-aaaaaaaaaaaa"))
		return err
	}},
	"an unknown trace": {7000, func(ctx context.Context, o *outbox.Operator) error {
		if _, err := o.LocateTrace(ctx, "0af7651916cd43dd8448eb211c80319c", 100_000); !errors.Is(err, outbox.ErrNoEvent) {
			return fmt.Errorf("found it, error %w", err)
		}
		return nil
	}},
}

// manyIDs returns the ids of n failed events.
func manyIDs(n int) (ids []uuid.UUID) {
	for i := range n {
		ids = append(ids, uuid.MustParse(fmt.Sprintf("%08x-%04x-aaaa-aaaa-aaaaaaaaaaaa", (i+1)*1000>>16, (i+1)*1000&0xffff)))
	}
	return ids
}

func findPage(f outbox.Filter, after outbox.Place) func(context.Context, *outbox.Operator) error {
	f.Status = "failed"
	return func(ctx context.Context, o *outbox.Operator) error {
		_, err := o.FindFailed(ctx, f, after, 51)
		return err
	}
}

func choose(f outbox.Filter) func(context.Context, *outbox.Operator) error {
	f.Status = "failed"
	return func(ctx context.Context, o *outbox.Operator) error {
		_, err := o.Choose(ctx, f, 10_000)
		return err
	}
}

// countOverview asks for the numbers of the overview, which are counted up to 10,000.
func countOverview(db *postgres.DB) error {
	const limit = 10_000
	store := outbox.NewStore(db)
	if _, err := store.BacklogUpTo(context.Background(), limit); err != nil {
		return err
	}
	_, err := store.Totals(context.Background(), limit)
	return err
}

// TestAPageReadsLittleOfALargeBacklog also logs the times, which it does not check.
func TestAPageReadsLittleOfALargeBacklog(t *testing.T) {
	t.Parallel()
	const times = 7 // from the sixth time on, PostgreSQL may use a general plan
	f := newFixture(t)
	f.disableAutovacuum()
	f.failMany(*backlogSize)
	measure := func(name string, most int, ask func(*postgres.DB) error) {
		var last time.Duration
		blocks := f.blocksRead(func(db *postgres.DB) error {
			for range times {
				began := time.Now()
				if err := ask(db); err != nil {
					return err
				}
				last = time.Since(began)
			}
			return nil
		}) / times
		t.Logf("%s of %d failed events: %d blocks, %s", name, *backlogSize, blocks, last)
		if blocks > most {
			t.Errorf("%s reads %d blocks, want at most %d", name, blocks, most)
		}
	}
	for name, q := range queries {
		measure(name, q.most, func(db *postgres.DB) error { return q.ask(t.Context(), outbox.NewOperator(db)) })
	}
	measure("the overview", 1000, countOverview)
	f.appendNewer(*backlogSize)
	measure("the overview, with as many pending events,", 1000, countOverview)
	measure("the list, with as many pending events,", 900, func(db *postgres.DB) error {
		return queries["the list of a filter"].ask(t.Context(), outbox.NewOperator(db))
	})
}
