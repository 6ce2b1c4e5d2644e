package relay

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/internal/grace"
	"example.com/transactional-outbox/internal/publish"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// worker is a loop with its own channel.
type worker struct {
	*Relay
	broker       publish.Session
	publisher    publish.Publisher
	name         string
	failedClaims int // how many claims failed since the last one that succeeded
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

// claimRetryPause is the pause after a failed claim. After each further failure it is longer.
const claimRetryPause = 50 * time.Millisecond

// smallBatchPause is the pause after a batch that was not full. The events that are committed
// meanwhile make one larger batch instead of many small ones, and each batch costs the
// database the same. The first event after a quiet time does not wait.
const smallBatchPause = 2 * time.Millisecond

// drain publishes batches until nothing is due.
func (w *worker) drain(ctx context.Context) error {
	for ctx.Err() == nil {
		if w.broker.Unblocked(ctx) != nil {
			return nil
		}
		left := w.refusals.wait(time.Now())
		w.metrics.refusesAll.Set(float64(boolToInt(w.Refused())))
		if left > 0 {
			pause(ctx, left)
			continue
		}
		claimed, more, err := w.processBatch(ctx, w.limit())
		if err != nil || claimed == 0 {
			return err
		}
		if !more {
			pause(ctx, smallBatchPause)
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
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
	finish, done := grace.Period(ctx, finishTimeout)
	defer done()
	began := time.Now()
	claim, err := w.claim(finish, limit)
	if err != nil {
		if ctx.Err() == nil {
			slog.WarnContext(ctx, "cannot claim from the outbox", "error", err)
		}
		return 0, false, nil
	}
	if len(claim.Events) == 0 {
		return 0, false, nil
	}
	if claim.More {
		w.Wake() // another worker can take the rest
	}
	slog.InfoContext(ctx, "outbox events fetched", "count", len(claim.Events), "worker", w.name)

	crashpoint.At("relay.claimed")
	claimed = len(claim.Events)
	var waiting []outbox.Failure
	claim.Events, waiting = w.routes.split(claim.Events)
	probes, held := w.refusals.split(claim.Events)
	claim.Events, waiting = probes, append(waiting, held...)
	batch := w.newBatch(finish, claim.Events)
	sent := time.Now()
	results := w.publisher.Publish(batch.messages, w.config.ConfirmTimeout)
	s := w.config.decide(claim.Events, results, w.refusals.update(claim.Events, results, sent))
	s.later = append(s.later, waiting...)
	w.metrics.countBatch(batch, results, time.Since(began)) //nolint:contextcheck // each message has the context of its own trace
	batch.endSpans(results, s.outcomes)                     //nolint:contextcheck // the same
	err = w.settle(finish, claim, s)
	w.updateRoutes(finish, claim.Events, results)
	if err != nil {
		// If the broker blocks, a new connection would be blocked as well. So wait first.
		_ = w.broker.Unblocked(ctx)
		return 0, false, err
	}
	return claimed, claim.More, w.reopenAfterRefusal(results)
}

// claim claims until it gets events or nothing is due. One claim can be empty while others are
// due, if each of its events has to wait for an older one.
func (w *worker) claim(ctx context.Context, limit int) (claim outbox.Claim, err error) {
	for claim.More = true; claim.More && len(claim.Events) == 0 && err == nil; {
		claim, err = w.claimOnce(ctx, limit)
	}
	return claim, err
}

// claimOnce has its own deadline. If it commits after that, the events wait for the lease to end.
func (w *worker) claimOnce(ctx context.Context, limit int) (outbox.Claim, error) {
	w.failedClaims++ // reset if it succeeds
	ctx, cancel := context.WithTimeout(ctx, statementTimeout(w.failedClaims))
	defer cancel()
	claim, err := w.outbox.Claim(ctx, w.name, limit, w.config.Lease)
	if err == nil {
		w.failedClaims = 0
	}
	return claim, err
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
	w.publisher, err = w.broker.NewPublisher(w.config.BatchSize)
	return err
}

// finishTimeout is how long a batch may take after the relay was asked to stop. The process
// then still has time to end within its 25 s.
const finishTimeout = 15 * time.Second
