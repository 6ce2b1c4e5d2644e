package outboxtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/internal/store"
)

// drainBatch is few: what Drain has in hand when it fails waits for nobody, but is read in vain.
const drainBatch = 100

// Drain does what a relay does, once and in this goroutine: it hands each event that is due to
// send, in the order of a relay, and marks it as published. It goes on until nothing is due, so it
// also sends what send itself appends. Events stay if they are delayed, have failed, are of a
// paused topic, or are being sent by a relay. Overtaken events are marked as overtaken, and not
// sent. It returns how many events it has sent.
//
// At the first error it stops, and returns that error. The event is as before: nothing counts as an
// attempt, and the next call begins with it.
func Drain(ctx context.Context, pool *pgxpool.Pool, send func(context.Context, outbox.Event) error) (sent int, err error) {
	s := store.New(pool)
	for {
		claim, err := s.Claim(ctx, "outboxtest.Drain", drainBatch, time.Minute)
		if err != nil {
			return sent, err
		}
		for _, e := range claim.Events {
			if err == nil {
				err = drainOne(ctx, s, claim.Token, e, &sent, send)
			}
		}
		if len(claim.Lost) > 0 {
			err = errors.Join(err, fmt.Errorf("these events are in outbox_queue, but not in outbox_events: %v", claim.Lost))
		}
		_, ended := s.Settle(ctx, store.Settlement{Token: claim.Token, End: true})
		if err = errors.Join(err, ended); err != nil || len(claim.Events) == 0 && !claim.More {
			return sent, err
		}
	}
}

func drainOne(
	ctx context.Context, s *store.Store, token uuid.UUID, e store.Event, sent *int, send func(context.Context, outbox.Event) error,
) error {
	ids := []uuid.UUID{e.ID}
	if e.Overtaken {
		_, err := s.Settle(ctx, store.Settlement{Token: token, Overtaken: ids})
		return err
	}
	err := send(ctx, outbox.Event{
		Topic: e.Topic, Aggregate: e.Aggregate, AggregateID: e.AggregateID, Version: e.Version,
		Payload: e.Payload, ContentType: e.ContentType, Headers: e.Headers, ID: e.ID,
	})
	if err != nil {
		return fmt.Errorf("sending %s %s: %w", e.Topic, e.ID, err)
	}
	*sent++
	_, err = s.Settle(ctx, store.Settlement{Published: ids})
	return err
}
