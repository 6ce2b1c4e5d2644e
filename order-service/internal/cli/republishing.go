package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/audit"
	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/publish"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// republishing is one run of the command, with its progress.
type republishing struct {
	Dependencies
	cli.Printer
	printEach bool // whether each event is printed
	window    outbox.Window
	after     uuid.UUID // the events up to here are done
	sent      int
	in        outbox.Range // where the events are
}

// start counts the events to send.
func (s *republishing) start(ctx context.Context) error {
	if s.after != uuid.Nil {
		found, err := s.Outbox.Get(ctx, s.after)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("there is no event %s to go on after: leave out --after, because starting again does no harm", s.after)
		}
	}
	in, err := s.Outbox.PublishedRange(ctx, s.window, s.after)
	s.in = in
	return err
}

// forEachPage calls do with each page of events, and then counts the page as done.
func (s *republishing) forEachPage(ctx context.Context, do func([]outbox.Published) error) error {
	progress := cli.Progress{To: s.Progress, Noun: event, Total: s.in.Events}
	for {
		page, next, err := s.Outbox.Published(ctx, s.window, s.in, s.after, batchSize)
		if err != nil || next == uuid.Nil {
			return err
		}
		if err := do(page); err != nil {
			return err
		}
		s.after, s.sent = next, s.sent+len(page)
		if s.printEach {
			if err := s.Page(publishedRows(page)); err != nil {
				return err
			}
		}
		progress.At(s.sent)
	}
}

// send publishes all pages on one session.
func (s *republishing) send(ctx context.Context, broker publish.Session) error {
	publisher, err := broker.NewPublisher(batchSize)
	if err != nil {
		return err
	}
	defer publisher.Close()
	by := audit.New(s.By, audit.CLI, s.flags())
	return s.forEachPage(ctx, func(page []outbox.Published) error {
		if len(page) == 0 {
			return nil
		}
		record, err := s.Decisions.Begin(ctx, by, audit.Republish, publishedIDs(page))
		if err != nil {
			return err
		}
		if err := s.sendPage(ctx, broker, publisher, page); err != nil {
			return err // the record has no end: perhaps not all of these were sent
		}
		return s.Decisions.Finish(ctx, record, len(page))
	})
}

func (s *republishing) sendPage(ctx context.Context, broker publish.Session, publisher publish.Publisher, page []outbox.Published) error {
	for _, part := range splitByVersion(page) {
		if err := broker.Unblocked(ctx); err != nil {
			return err
		}
		if err := s.publish(publisher, part); err != nil {
			return err
		}
	}
	return nil
}

func publishedIDs(page []outbox.Published) []string {
	ids := make([]uuid.UUID, 0, len(page))
	for _, e := range page {
		ids = append(ids, e.ID)
	}
	return audit.IDs(ids)
}

// splitByVersion splits a page so that no part has two events of one order. Each part is
// confirmed before the next one is published. So if the broker does not take an event, the next
// event of its order is not published before it.
func splitByVersion(page []outbox.Published) (parts [][]outbox.Published) {
	nth := 0
	for i, e := range page {
		if i > 0 && page[i-1].AggregateType == e.AggregateType && page[i-1].AggregateID == e.AggregateID {
			nth++
		} else {
			nth = 0
		}
		if nth == len(parts) {
			parts = append(parts, nil)
		}
		parts[nth] = append(parts[nth], e)
	}
	return parts
}

func (s *republishing) publish(publisher publish.Publisher, part []outbox.Published) error {
	messages := make([]publish.Message, 0, len(part))
	for _, e := range part {
		messages = append(messages, s.Relay.Message(e.Claimed))
	}
	for i, result := range publisher.Publish(messages, s.Relay.ConfirmTimeout) {
		if result.Outcome != publish.Confirmed {
			return fmt.Errorf("%s (%s) was not taken: %w; %s", messages[i].ID, messages[i].Key, result.Err, cli.Advice(result.Outcome))
		}
	}
	return nil
}

// flags returns the flags that continue this run, as an operator would write them.
func (s *republishing) flags() string {
	flags := fmt.Sprintf("--since %s --until %s",
		s.window.Since.UTC().Format(time.RFC3339Nano), s.window.Until.UTC().Format(time.RFC3339Nano))
	if s.window.EventKey != "" {
		flags += " --event-key " + s.window.EventKey
	}
	if s.after != uuid.Nil {
		flags += " --after " + s.after.String()
	}
	return flags
}

// resumeError says how many events were sent and how to continue.
func (s *republishing) resumeError(err error) error {
	return fmt.Errorf("%d of %s sent again, then: %w\nGo on with\n  %s republish %s\nEvents that are sent twice do no harm: they have the ids that they had",
		s.sent, event.Count(s.in.Events), err, program, s.flags())
}
