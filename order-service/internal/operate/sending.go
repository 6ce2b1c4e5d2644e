package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/operator"
	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/order-service/internal/outbox"
	"example.com/transactional-outbox/order-service/internal/relay"
)

// sending is one run, and how far it is.
type sending struct {
	Desk
	operator.Printer
	each   bool // whether each event is printed
	window outbox.Window
	after  outbox.Position // all up to here are done
	last   uuid.UUID       // the event there
	sent   int
	total  int
}

// find finds the beginning, and counts what is behind it.
func (s *sending) find(ctx context.Context) error {
	if s.last != uuid.Nil {
		found, err := s.Outbox.Get(ctx, s.last)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("there is no event %s to go on behind: leave --after out, beginning anew does no harm", s.last)
		}
		s.after = found[0].Position
	}
	total, err := s.Outbox.CountPublished(ctx, s.window, s.after)
	s.total = total
	return err
}

// pages does something with each page of events, and then counts it as done.
func (s *sending) pages(ctx context.Context, do func([]outbox.Published) error) error {
	far := operator.Progress{To: s.Progress, Noun: event, Total: s.total}
	for {
		page, err := s.Outbox.Published(ctx, s.window, s.after, batchSize)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := do(page); err != nil {
			return err
		}
		end := page[len(page)-1]
		s.after, s.last, s.sent = end.Position, end.ID, s.sent+len(page)
		if s.each {
			if err := s.Page(sentRows(page)); err != nil {
				return err
			}
		}
		far.At(s.sent)
	}
}

// send publishes all pages on one session.
func (s *sending) send(ctx context.Context, broker relay.Broker) error {
	publisher, err := broker.NewPublisher(batchSize)
	if err != nil {
		return err
	}
	defer publisher.Close()
	return s.pages(ctx, func(page []outbox.Published) error {
		for _, wave := range waves(page) {
			if err := broker.Unblocked(ctx); err != nil {
				return err
			}
			if err := s.publish(publisher, wave); err != nil {
				return err
			}
		}
		return nil
	})
}

// waves parts a page so that no wave has two events of one order. Each wave is
// confirmed before the next one leaves, so that an event which the broker does not
// take is not overtaken by its order's next one.
func waves(page []outbox.Published) (waves [][]outbox.Published) {
	nth := 0
	for i, e := range page {
		if i > 0 && page[i-1].AggregateType == e.AggregateType && page[i-1].AggregateID == e.AggregateID {
			nth++
		} else {
			nth = 0
		}
		if nth == len(waves) {
			waves = append(waves, nil)
		}
		waves[nth] = append(waves[nth], e)
	}
	return waves
}

func (s *sending) publish(publisher relay.Publisher, wave []outbox.Published) error {
	messages := make([]rabbitmq.Message, 0, len(wave))
	for _, e := range wave {
		messages = append(messages, s.Relay.Message(e.Claimed))
	}
	for i, result := range publisher.Publish(messages, s.Relay.ConfirmTimeout) {
		if result.Outcome != rabbitmq.Confirmed {
			return fmt.Errorf("%s (%s) was not taken: %w; %s", messages[i].ID, messages[i].RoutingKey, result.Err, operator.Advice(result.Outcome))
		}
	}
	return nil
}

// stopped says how far a run came, and how to go on.
func (s *sending) stopped(err error) error {
	goOn := fmt.Sprintf("%s republish --since %s --until %s", program,
		s.window.Since.UTC().Format(time.RFC3339Nano), s.window.Until.UTC().Format(time.RFC3339Nano))
	if s.window.EventKey != "" {
		goOn += " --event-key " + s.window.EventKey
	}
	if s.last != uuid.Nil {
		goOn += " --after " + s.last.String()
	}
	return fmt.Errorf("%d of %s sent again, then: %w\nGo on with\n  %s\nEvents that are sent twice do no harm: they have the ids that they had",
		s.sent, event.Count(s.total), err, goOn)
}
