package outboxcli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

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

// wanted tells which dead letters have all of what is chosen. TIME is by this machine's clock,
// because list needs no database. A message without a time of failure is never old.
func (c deadLetters) wanted(ids []text) func(rabbitmq.DeadLetter) bool {
	now := time.Now()
	return func(l rabbitmq.DeadLetter) bool {
		return (len(ids) == 0 || slices.Contains(ids, text(l.ID))) &&
			(c.Reason == "" || string(c.Reason) == l.Code) &&
			(c.RoutingKey == "" || string(c.RoutingKey) == l.RoutingKey) &&
			(c.OlderThan.asOf == nil || !l.FailedAt.IsZero() && !l.FailedAt.After(c.OlderThan.asOf(now)))
	}
}

// reader reads dead letters.
type reader struct {
	letters
	wanted   func(rabbitmq.DeadLetter) bool
	progress progress
	seen     int
}

// next returns the next dead letter that is wanted.
func (r *reader) next(ctx context.Context) (rabbitmq.DeadLetter, bool, error) {
	for ctx.Err() == nil {
		l, ok, err := r.Next()
		if err != nil || !ok {
			return l, false, err
		}
		if r.seen++; r.seen%pageSize == 0 || r.seen == r.progress.total {
			r.progress.at(r.seen)
		}
		if r.wanted(l) {
			return l, true, nil
		}
	}
	return rabbitmq.DeadLetter{}, false, context.Cause(ctx)
}

func (c deadLetters) open(ctx context.Context, e *env, ids []text, use func(context.Context, *reader) error) error {
	return e.letters(ctx, func(ctx context.Context, all letters) error {
		progress := progress{to: e.progress, total: all.Count()}
		return use(ctx, &reader{letters: all, wanted: c.wanted(ids), progress: progress})
	})
}

func (c deadLetters) find(ctx context.Context, e *env, limit int) (found []any, err error) {
	err = c.open(ctx, e, nil, func(ctx context.Context, r *reader) error {
		for len(found) < limit {
			l, ok, err := r.next(ctx)
			if err != nil || !ok {
				return err
			}
			found = append(found, letterOf(l))
		}
		return nil
	})
	return found, err
}

func (c deadLetters) show(ctx context.Context, e *env, id text) (found []any, err error) {
	err = c.open(ctx, e, []text{id}, func(ctx context.Context, r *reader) error {
		for {
			l, ok, err := r.next(ctx)
			if err != nil || !ok {
				return err
			}
			found = append(found, allOf(l))
		}
	})
	if err == nil && len(found) == 0 {
		err = errors.New(c.notFound(e, id))
	}
	return found, err
}

// letter is a dead letter in a list.
type letter struct {
	ID         string    `json:"id"`
	RoutingKey string    `json:"routing_key"`
	FailedAt   time.Time `json:"failed_at"`   // null: unknown
	Age        *float64  `json:"age_seconds"` // since FailedAt, by this machine's clock
	Retries    int64     `json:"retry_count"`
	Size       int       `json:"size"` // of the body, in bytes
	Code       string    `json:"failure_code"`
	Reason     string    `json:"failure_reason"`
}

func letterOf(d rabbitmq.DeadLetter) letter {
	l := letter{d.ID, d.RoutingKey, d.FailedAt, nil, d.Retries, len(d.Body), d.Code, d.Reason}
	if !d.FailedAt.IsZero() {
		l.Age = new(time.Since(d.FailedAt).Seconds())
	}
	return l
}

// whole is all of a dead letter.
type whole struct {
	letter
	Exchange        string         `json:"exchange"`
	Type            string         `json:"type"`
	Timestamp       time.Time      `json:"timestamp"`
	AppID           string         `json:"app_id"`
	CorrelationID   string         `json:"correlation_id"`
	ReplyTo         string         `json:"reply_to"`
	Priority        uint8          `json:"priority"`
	ContentType     string         `json:"content_type"`
	ContentEncoding string         `json:"content_encoding"`
	Headers         map[string]any `json:"headers"`
	BodyEncoding    string         `json:"body_encoding"` // json, text or base64
	Body            jsontext.Value `json:"body"`          // a string, unless it is json
}

func allOf(m rabbitmq.DeadLetter) whole {
	encoding, body := contentOf(m.Body) // whatever the content type says
	headers := m.HeaderValues()
	if _, err := marshal(headers); err != nil { // any publisher may have written a number that JSON does not have
		headers = map[string]any{"unreadable": fmt.Sprint(headers)}
	}
	return whole{
		letterOf(m), m.Exchange, m.Type, m.Timestamp, m.AppID, m.CorrelationID, m.ReplyTo, m.Priority,
		m.ContentType, m.ContentEncoding, headers, encoding, body,
	}
}
