package dlq_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

func TestReplaySendsTheMessageAsItWas(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	at := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	id := b.Add("malformed", 0, func(p *amqp.Publishing) {
		p.CorrelationId, p.Timestamp = "corr", at
		p.Headers["CC"], p.Headers["BCC"] = []any{b.Letters}, []any{b.Letters} // to our own dead letters
		p.Headers["x-death"] = []any{amqp.Table{"queue": b.Service, "reason": "rejected", "count": int64(1), "exchange": b.Requeue}}
		p.Headers["x-of-somebody"], p.Headers["first-failed-at"] = "?", "2026-01-31T08:00:00Z"
	})
	if out := b.must("replay", id); out != "1 message replayed.\n" {
		t.Errorf("it prints %q", out)
	}
	m := b.Drain(b.Service, 1)[0]
	if m.MessageId != id || m.Type != "order.created" || m.RoutingKey != "order.created" || m.AppId != "order-service" ||
		m.ContentType != "application/json" || m.CorrelationId != "corr" || !m.Timestamp.Equal(at) ||
		m.DeliveryMode != amqp.Persistent || string(m.Body) != `{"quantity": 2}` {
		t.Errorf("sent %+v", m)
	}
	delete(m.Headers, "x-delivery-count") // the broker's, of this queue
	if decision := b.recorder.Rows[0].Decision.String(); m.Headers["x-operator-decision"] != decision {
		t.Errorf("sent by the decision %v, want %s", m.Headers["x-operator-decision"], decision)
	}
	if cc, _ := m.Headers["original-cc"].([]any); len(m.Headers) != 5 || len(cc) != 1 || m.Headers["x-of-somebody"] != "?" || m.Headers["traceparent"] != "00-aa-bb-01" || m.Headers["original-exchange"] != "outbox.events" {
		t.Errorf("sent with the headers %v", m.Headers)
	}
	if left := b.Drain(b.Letters, 0); len(left) != 0 {
		t.Errorf("left are %v", idsOf(left))
	}
}

func TestReplayAndDiscardChooseByIDOrFilter(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"replay", "discard"} {
		for line, want := range map[string][]int{
			"--all":                         {0, 1, 2},
			"--older-than 1h":               {0},
			"--reason malformed":            {0, 2},
			"--routing-key order.cancelled": {2},
			"--reason none":                 {},
			"ID":                            {1},
		} {
			b := newFixture(t)
			ids := []string{b.Add("malformed", 2*time.Hour), b.Add("panicked", 0), b.Add("malformed", 0, func(p *amqp.Publishing) { p.Type = "order.cancelled" })}
			args := append([]string{command, "--json"}, strings.Fields(strings.ReplaceAll(line, "ID", ids[1]))...)
			chosen, others := []string{}, slices.Clone(ids)
			for _, i := range want {
				chosen = append(chosen, ids[i])
				others = slices.DeleteFunc(others, func(id string) bool { return id == ids[i] })
			}
			if got := b.ids(b.must(append(args, "--dry-run")...)); !slices.Equal(got, chosen) {
				t.Errorf("%s %s: a dry run prints %v, want %v", command, line, got, chosen)
			}
			b.Await(b.Letters, 3)
			if got := b.ids(b.must(args...)); !slices.Equal(got, chosen) {
				t.Errorf("%s %s prints %v, want %v", command, line, got, chosen)
			}
			left, sent := b.Contents(len(others), 0)
			if command == "discard" {
				chosen = nil
			}
			if !sameSet(left, others) || !slices.Equal(sent, chosen) {
				t.Errorf("%s %s: left are %v, want %v; sent %v, want %v", command, line, left, others, sent, chosen)
			}
		}
	}
}

func TestWithoutACopyTheOriginalStays(t *testing.T) {
	t.Parallel()
	for outcome, advice := range map[publish.Outcome]string{
		publish.Returned: "start the services", publish.Refused: "full", publish.Unknown: "broker runs",
	} {
		b := newFixture(t)
		b.Hooks.Answer = func(rabbitmq.DeadLetter) *publish.Result {
			return &publish.Result{Outcome: outcome, Err: errors.New("because")}
		}
		ids := []string{b.Add("malformed", 0), b.Add("malformed", 0)}
		_, _, err := b.run("replay", "--all")
		if err == nil || !strings.Contains(err.Error(), "0 messages replayed") || !strings.Contains(err.Error(), ids[0]) || !strings.Contains(err.Error(), advice) {
			t.Errorf("error %v, want that of %s with %q", err, ids[0], advice)
		}
		if left, sent := b.Contents(2, 0); !sameSet(left, ids) || len(sent) != 0 {
			t.Errorf("left are %v, and tried %v", left, sent)
		}
	}
}

// TestWithoutAQueueBehindTheExchangeTheOriginalStays, and without the exchange: the
// broker's own answers.
func TestWithoutAQueueBehindTheExchangeTheOriginalStays(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	id := b.Add("malformed", 0)
	b.Check(b.Channel.QueueUnbind(b.Service, "", b.Requeue, nil))
	if _, _, err := b.run("replay", id); err == nil || !strings.Contains(err.Error(), "no queue is bound") || !strings.Contains(err.Error(), "start the services") {
		t.Errorf("without a binding the error is %v", err)
	}
	b.Check(b.Channel.ExchangeDelete(b.Requeue, false, false))
	if _, _, err := b.run("replay", id); err == nil || !strings.Contains(err.Error(), "no exchange '"+b.Requeue) {
		t.Errorf("without the exchange the error is %v", err)
	}
	if left := idsOf(b.Drain(b.Letters, 1)); !slices.Equal(left, []string{id}) {
		t.Errorf("left are %v", left)
	}
}

// TestWhatCannotBeSentIsNamedAndTheOthersReplayed: the headers are more than a
// publisher may send.
func TestWhatCannotBeSentIsNamedAndTheOthersReplayed(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	large := b.Add("rejected", 0, func(p *amqp.Publishing) { p.Headers["large"] = strings.Repeat("x", 70<<10) })
	b.Add("malformed", 0, func(p *amqp.Publishing) { p.MessageId = "" })
	good := b.Add("malformed", 0)
	out, _, err := b.run("replay", "--all")
	if out != "1 message replayed.\n" || err == nil || !strings.Contains(err.Error(), large+" cannot be sent") || !strings.Contains(err.Error(), "one without an id cannot be sent") {
		t.Errorf("it prints %q, error %v", out, err)
	}
	if left, sent := b.Contents(2, 1); !sameSet(left, []string{large, ""}) || !slices.Equal(sent, []string{good}) {
		t.Errorf("left are %v, and sent %v", left, sent)
	}
}

// TestAnInterruptedCommandGivesBackWhatItHolds and says how far it came.
func TestAnInterruptedCommandGivesBackWhatItHolds(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	ids := b.AddMany(4)
	ctx, interrupt := context.WithCancel(t.Context())
	b.Hooks.Changed = func(m rabbitmq.DeadLetter) {
		if m.ID == ids[1] {
			interrupt()
		}
	}
	_, _, err := b.runIn(ctx, "replay", "--all")
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "2 messages replayed, then") {
		t.Errorf("error %v", err)
	}
	if left, sent := b.Contents(2, 2); !slices.Equal(left, ids[2:]) || !slices.Equal(sent, ids[:2]) {
		t.Errorf("left are %v, and sent %v", left, sent)
	}
}
