package outbox

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/crashpoint"
	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// worker is a loop with its own publisher.
type worker struct {
	*Relay
	session      publish.Session
	publisher    publish.Publisher
	name         string
	failedClaims int // how many claims failed since the last one that succeeded
	fruitless    int // how many claims in a row had no event to publish
}

func (w *worker) run(ctx context.Context) error {
	poll := time.NewTicker(w.config.PollInterval)
	defer poll.Stop()
	for {
		if err := w.drain(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		case <-poll.C:
		case <-w.claimRetry():
		}
	}
}

// claimRetry fires when a failed claim is due to be tried again. It does not wait for the next
// poll: after a restart of the database, each connection of the pool fails once.
func (w *worker) claimRetry() <-chan time.Time {
	if w.failedClaims == 0 {
		return nil
	}
	return time.After(min(time.Duration(w.failedClaims)*claimRetryPause, w.config.PollInterval))
}

const (
	// claimRetryPause is the pause after a failed claim. After each further failure it is longer.
	claimRetryPause = 50 * time.Millisecond
	// smallBatchPause is the pause after a batch that was not full. The events that are committed
	// meanwhile make one larger batch instead of many small ones, and each batch costs the
	// database the same. The first event after a quiet time does not wait.
	smallBatchPause = 2 * time.Millisecond
	// A claim may find events and return none to publish: each waits for an older one, or has lost
	// its payload. Usually the next claim returns others. If not, the pauses double, so that a
	// worker does not commit thousands of claims that bring nothing. A claim that parks events is not
	// one of these: the next one finds what is due behind them.
	firstFruitlessPause   = 2 * time.Millisecond
	longestFruitlessPause = time.Second
)

// drain publishes batches until nothing is due.
func (w *worker) drain(ctx context.Context) error {
	for ctx.Err() == nil {
		if w.unblocked(ctx) != nil {
			return nil
		}
		left := w.refusals.wait(time.Now())
		w.counters.refusesAll.Store(w.refusals.all())
		if left > 0 {
			wait(ctx, left)
			continue
		}
		claimed, more, err := w.processBatch(ctx, w.limit())
		if err != nil || claimed == 0 && !more {
			return err
		}
		switch {
		case w.fruitless > 0:
			w.pauseFruitless(ctx)
		case !more:
			wait(ctx, smallBatchPause)
		}
	}
	return nil
}

// pauseFruitless pauses after a claim without an event to publish.
func (w *worker) pauseFruitless(ctx context.Context) {
	if w.fruitless > 10 {
		w.log.trouble(ctx, slog.LevelWarn, "events are due, and claims bring none to publish", "claims", w.fruitless)
	}
	wait(ctx, min(firstFruitlessPause<<min(w.fruitless-1, 16), longestFruitlessPause))
}

// limit is how many events the next claim may take.
func (w *worker) limit() int {
	if w.suspects.Load() > 0 {
		return 1
	}
	return w.config.BatchSize
}

// processBatch claims at most limit events, publishes them and settles them. It returns an
// error only when the session can no longer be used. A failed claim is logged and tried again.
func (w *worker) processBatch(ctx context.Context, limit int) (claimed int, more bool, err error) {
	// From here on the batch is finished even if ctx ends. The claim as well: a claim that is
	// cancelled may still be committed, and then its events wait until the lease ends.
	finish, done := gracePeriod(ctx, w.config.ShutdownTimeout)
	defer done()
	claim, err := w.claim(finish, limit)
	if err != nil {
		return 0, false, nil
	}
	read := time.Now()
	claimed = len(claim.Events) + len(claim.Lost)
	if claim.Parked {
		w.fruitless = 0
	} else {
		w.fruitless++
	}
	if claimed == 0 {
		return 0, claim.More, nil
	}
	if claim.More {
		w.wakeWorker() // another worker can take the rest
	}
	if len(claim.Events) > 0 {
		w.fruitless = 0
		w.log.step(ctx, "outbox events fetched", "count", len(claim.Events), "worker", w.name)
	}
	crashpoint.At("relay.claimed")
	results, err := w.publishClaim(finish, claim, read)
	if err != nil {
		// If the destination blocks, a new connection would be blocked as well. So wait first.
		_ = w.unblocked(ctx)
		return 0, false, err
	}
	return claimed, claim.More, w.reopenAfterRefusal(results)
}

// publishClaim publishes those events of a claim that may be published now, and settles all of
// them. Read is when the claim was read.
func (w *worker) publishClaim(ctx context.Context, claim store.Claim, read time.Time) ([]publish.Result, error) {
	events, overtaken := splitOvertaken(claim.Events)
	events, waitForRoute := w.routes.split(events)
	events, waitForProbe := w.refusals.split(events)
	b := w.newBatch(ctx, events)
	sent := time.Now()
	var results []publish.Result
	if len(events) > 0 {
		results = w.publisher.Publish(b.messages, w.config.ConfirmTimeout)
	}
	s := w.config.decide(events, results, w.refusals.update(events, results, sent))
	s.later = slices.Concat(s.later, waitForRoute, waitForProbe)
	s.overtaken, s.lost = overtaken, claim.Lost
	w.count(b, results, time.Since(read)) //nolint:contextcheck // each message has the context of its own trace
	w.endSpans(b, results, s.outcomes)    //nolint:contextcheck // the same
	err := w.settle(ctx, claim, s)
	w.updateRoutes(ctx, events, results)
	return results, err
}

// splitOvertaken separates the events to publish from those that a newer one supersedes.
func splitOvertaken(all []store.Event) (events []store.Event, overtaken []uuid.UUID) {
	for _, e := range all {
		if e.Overtaken {
			overtaken = append(overtaken, e.ID)
		} else {
			events = append(events, e)
		}
	}
	return events, overtaken
}

// claim has its own deadline. If it commits after that, the events wait for the lease to end.
func (w *worker) claim(ctx context.Context, limit int) (store.Claim, error) {
	w.failedClaims++ // reset if it succeeds
	ctx, cancel := context.WithTimeout(ctx, statementTimeout(w.failedClaims))
	defer cancel()
	began := time.Now()
	claim, err := w.events.Claim(ctx, w.name, limit, w.config.Lease)
	if err != nil {
		w.state.database.Store(&err)
		w.log.trouble(ctx, slog.LevelWarn, "cannot claim from the outbox", "error", err)
		return store.Claim{}, err
	}
	w.counters.claims.add(time.Since(began))
	w.failedClaims = 0
	w.state.database.Store(nil)
	return claim, nil
}

// reopenAfterRefusal opens another channel after a queue has refused a message. RabbitMQ 3.10
// keeps refusing on the old channel, even after the queue's limit is lifted, until the events
// would fail.
func (w *worker) reopenAfterRefusal(results []publish.Result) (err error) {
	refused := func(r publish.Result) bool { return r.Outcome == publish.Refused }
	if !slices.ContainsFunc(results, refused) {
		return nil
	}
	w.publisher.Close()
	w.publisher, err = w.session.NewPublisher(w.config.BatchSize)
	return err
}

// gracePeriod returns a context that ends this much later than ctx. The function ends it at once.
func gracePeriod(ctx context.Context, length time.Duration) (context.Context, context.CancelFunc) {
	finish, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if wait(finish, length) {
			cancel()
		}
	})
	return finish, func() {
		stop()
		cancel()
	}
}
