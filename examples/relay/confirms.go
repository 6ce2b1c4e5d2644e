package main

import (
	"context"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"
)

// withConfirms sends the whole batch, and then waits for each confirm.
func (r *relay) withConfirms() publish {
	return func(ctx context.Context, events []event) (published []uuid.UUID, _ error) {
		if err := r.ch.Confirm(false); err != nil {
			return nil, err
		}
		confirms := make([]*amqp.DeferredConfirmation, len(events))
		for i, e := range events {
			const mandatory = true // the broker returns a message that no queue is bound for
			c, err := r.ch.PublishWithDeferredConfirm(r.exchange, e.Key, mandatory, false, e.message())
			if err != nil {
				return nil, err
			}
			confirms[i] = c
		}
		returned := map[string]bool{}
		for i, e := range events {
			acked, err := confirms[i].WaitContext(ctx)
			if err != nil {
				return nil, err
			}
			for len(r.returns) > 0 { // the broker sends a return before its confirm
				returned[(<-r.returns).MessageId] = true
			}
			if acked && !returned[e.ID.String()] {
				published = append(published, e.ID)
			}
		}
		return published, nil
	}
}
