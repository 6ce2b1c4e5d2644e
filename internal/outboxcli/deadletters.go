package outboxcli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"example.com/transactional-outbox/outbox/rabbitmq"
)

// deadLetters are the messages in the queue of dead letters that the flags choose.
type deadLetters struct {
	Reason     text   `group:"Choose by:" placeholder:"CODE" help:"Only messages with this code, such as retries-exhausted."`
	RoutingKey text   `group:"Choose by:" placeholder:"KEY" help:"Only messages with this routing key, such as order.created."`
	OlderThan  moment `group:"Choose by:" placeholder:"TIME" help:"Only messages that failed before TIME."`
}

func (deadLetters) none(e *env) string {
	return fmt.Sprintf("There are no messages like that in %s.", e.queue().DeadLetterQueue())
}

func (deadLetters) notFound(e *env, id text) string {
	return fmt.Sprintf("%s is not in the queue, or another operator's command holds it; `%s dlq list` shows ids", id, e.Name)
}

// matches reports whether a dead letter has all of what is chosen. One without a time of failure is
// never old.
func (c deadLetters) matches(l rabbitmq.DeadLetter, ids []text, now time.Time) bool {
	return (len(ids) == 0 || slices.Contains(ids, text(l.ID))) &&
		(c.Reason == "" || string(c.Reason) == l.Code) &&
		(c.RoutingKey == "" || string(c.RoutingKey) == l.RoutingKey) &&
		(c.OlderThan.asOf == nil || !l.FailedAt.IsZero() && !l.FailedAt.After(c.OlderThan.asOf(now)))
}

// chosen reads the dead letters that are chosen. TIME is by this machine's clock, because list needs
// no database.
func (c deadLetters) chosen(ctx context.Context, e *env, from letters, ids []text) iter.Seq2[rabbitmq.DeadLetter, error] {
	return func(yield func(rabbitmq.DeadLetter, error) bool) {
		now, progress := time.Now(), progress{to: e.progress, total: from.Count()}
		for seen := 1; ; seen++ {
			l, ok, err := from.Next()
			if err == nil {
				err = context.Cause(ctx)
			}
			if err != nil {
				yield(l, err)
				return
			}
			if !ok {
				return
			}
			if seen%pageSize == 0 || seen == progress.total {
				progress.at(seen)
			}
			if c.matches(l, ids, now) && !yield(l, nil) {
				return
			}
		}
	}
}

func (c deadLetters) find(ctx context.Context, e *env, limit int) (found []object, err error) {
	err = e.letters(ctx, func(ctx context.Context, all letters) error {
		for l, err := range c.chosen(ctx, e, all, nil) {
			if err != nil || len(found) == limit {
				return err
			}
			found = append(found, letterOf(l))
		}
		return nil
	})
	return found, err
}

func (c deadLetters) show(ctx context.Context, e *env, id text) (found []object, err error) {
	err = e.letters(ctx, func(ctx context.Context, all letters) error {
		for l, err := range c.chosen(ctx, e, all, []text{id}) {
			if err != nil {
				return err
			}
			found = append(found, wholeOf(l))
		}
		return nil
	})
	if err == nil && len(found) == 0 {
		err = errors.New(c.notFound(e, id))
	}
	return found, err
}

// letterOf is a dead letter in a list.
func letterOf(l rabbitmq.DeadLetter) object {
	var age any // since failed_at, by this machine's clock; null: unknown
	if !l.FailedAt.IsZero() {
		age = time.Since(l.FailedAt).Seconds()
	}
	return object{
		{"id", l.ID},
		{"routing_key", l.RoutingKey},
		{"failed_at", l.FailedAt},
		{"age_seconds", age},
		{"retry_count", l.Retries},
		{"size", len(l.Body)}, // in bytes
		{"failure_code", l.Code},
		{"failure_reason", l.Reason},
	}
}

// wholeOf is all of a dead letter.
func wholeOf(l rabbitmq.DeadLetter) object {
	encoding, body := contentOf(l.Body) // whatever the content type says
	return append(
		letterOf(l), object{
			{"exchange", l.Exchange},
			{"type", l.Type},
			{"timestamp", l.Timestamp},
			{"app_id", l.AppID},
			{"correlation_id", l.CorrelationID},
			{"reply_to", l.ReplyTo},
			{"priority", l.Priority},
			{"content_type", l.ContentType},
			{"content_encoding", l.ContentEncoding},
			{"headers", l.HeaderValues()},
			{"body_encoding", encoding}, // json, text or base64
			{"body", body},              // a string, unless it is json
		}...,
	)
}
