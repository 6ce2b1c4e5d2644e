package outboxcli

import (
	"context"
	"errors"
	"fmt"
	"iter"
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

func (c deadLetters) find(ctx context.Context, e *env, limit int) (found []any, err error) {
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

func (c deadLetters) show(ctx context.Context, e *env, id text) (found []any, err error) {
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

func wholeOf(m rabbitmq.DeadLetter) whole {
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
