package consumer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/notification-service/internal/inbox"
	"example.com/transactional-outbox/notification-service/internal/notification"
)

// message is one delivery on its way.
type message struct {
	rabbitmq.Delivery

	id      uuid.UUID
	event   notification.Event
	leased  bool          // this process has the lease of its notification
	done    chan struct{} // closed at the end
	waiting chan struct{} // closed when it only waits: for a copy, or for evidence from others
	once    sync.Once     // closes waiting

	database, mail suspicion
}

// onlyWaits says that the message cannot end the process any more, so others may be taken.
func (m *message) onlyWaits() { m.once.Do(func() { close(m.waiting) }) }

// Headers with which an operator says how a message is to be handled.
const (
	// ForcedHeader marks a message that is replayed although it is outside the dedupe
	// window.
	ForcedHeader = "replay-forced"
	// ReplayedHeader marks a message that is replayed from the dead letters.
	ReplayedHeader = "replayed"
)

// lastYear is the last that four digits hold. Far beyond, the database's driver
// overflows, and takes the future for the past.
const lastYear = 9999

// read validates m. Its errors are permanent.
func (c *Consumer) read(ctx context.Context, m *message) (err error) {
	defer recovered(ctx, &err)
	if m.tooLarge() {
		return deadLetterError{fmt.Errorf("a body of %d bytes, at most %d", m.Size, rabbitmq.MaxBody), TooLarge}
	}
	m.id, err = uuid.Parse(m.ID)
	if err != nil {
		err = fmt.Errorf("message id %q: %w", m.ID, err)
	}
	if m.Timestamp.IsZero() || m.Timestamp.Year() > lastYear {
		err = errors.Join(err, errors.New("no timestamp, or one that no calendar knows: its age cannot be told"))
	}
	event, unread := c.effect.Parse(m.Message)
	if m.event = event; err != nil || unread != nil {
		return deadLetterError{errors.Join(err, unread), malformed}
	}
	return nil
}

// tooLarge reports whether the body was left out: no copy of the message can be made.
func (m *message) tooLarge() bool { return m.Size > rabbitmq.MaxBody }

func (m *message) inbox() inbox.Message {
	return inbox.Message{ID: m.id, CreatedAt: m.Timestamp, Forced: m.flag(ForcedHeader)}
}

func (m *message) flag(header string) bool {
	set, _ := m.Headers[header].(bool)
	return set
}

// inHand knows the messages that this process is handling, by their ids. When a session ends,
// the broker delivers a message again while its first delivery may still be in hand.
type inHand struct {
	mu   sync.Mutex
	held map[uuid.UUID]*holder
}

type holder struct {
	since    time.Time // when its event was committed, by the producer's database
	released chan struct{}
}

// take waits until nobody else in this process has a message of that id in hand. The
// function that it returns gives the id back.
func (h *inHand) take(ctx context.Context, m *message) (release func(), err error) {
	for {
		other := h.tryTake(m)
		if other == nil {
			return func() { h.release(m.id) }, nil
		}
		m.onlyWaits()
		select {
		case <-other.released:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (h *inHand) tryTake(m *message) (other *holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if other = h.held[m.id]; other == nil {
		h.held[m.id] = &holder{m.Timestamp, make(chan struct{})}
	}
	return other
}

func (h *inHand) release(id uuid.UUID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.held[id].released)
	delete(h.held, id)
}

// oldest is when the event of the oldest message in hand was committed; zero if there is
// none.
func (h *inHand) oldest() (since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.held {
		if since.IsZero() || m.since.Before(since) {
			since = m.since
		}
	}
	return since
}
