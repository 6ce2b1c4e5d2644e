package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/store"
)

// drainBatch is few: what Drain holds when it fails was read in vain.
const drainBatch = 100

// Drain does what a relay does, once and in this goroutine: it hands each event that is due to
// send, in the order of a relay, and marks it as published. It goes on until nothing is due, so it
// also sends what send itself appends. Superseded events are not sent. Events stay if they are
// delayed, have failed, belong to a paused topic, or are being sent by a relay. It returns how many
// events it has sent.
//
// At the first error it stops, and returns that error. The event is as before: nothing counts as an
// attempt, and the next call begins with it.
func Drain(ctx context.Context, pool *pgxpool.Pool, send func(context.Context, outbox.Event) error) (sent int, err error) {
	s := store.New(pool)
	for {
		claim, err := s.Claim(ctx, "outboxtest.Drain", drainBatch, time.Minute)
		if store.IsNoSchema(err) {
			err = fmt.Errorf("%w: %w", outbox.ErrNoSchema, err)
		}
		if err != nil {
			return sent, err
		}
		done := store.Settlement{Token: claim.Token, End: true}
		if len(claim.NoPayload) > 0 {
			err = fmt.Errorf("%d events are in outbox_queue, but not in outbox_events, such as %s", len(claim.NoPayload), claim.NoPayload[0].ID)
		}
		for _, e := range claim.Events {
			if failed := send(ctx, eventOf(e)); failed != nil {
				err = errors.Join(err, fmt.Errorf("sending %s %s: %w", e.Topic, e.ID, failed))
				break
			}
			done.Published = append(done.Published, e)
		}
		sent += len(done.Published)
		_, failed := s.Settle(context.WithoutCancel(ctx), done) // what was sent is marked
		if err = errors.Join(err, failed); err != nil || len(claim.Events) == 0 && !claim.More {
			return sent, err
		}
	}
}

func eventOf(e store.Event) outbox.Event {
	return outbox.Event{
		Topic: e.Topic, Destination: e.Destination, Aggregate: e.Aggregate, AggregateID: e.AggregateID, Version: e.Version, Supersedes: e.Supersedes,
		Payload: e.Payload, ContentType: e.ContentType, Headers: e.Headers, Traceparent: e.Traceparent, ID: e.ID,
	}
}
