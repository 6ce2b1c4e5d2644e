package deadlettertest

import (
	"context"

	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// Hooks are called at the steps of a change. Any of them may be nil.
type Hooks struct {
	Taken     func(rabbitmq.BrowsedMessage)
	Removing  func(rabbitmq.BrowsedMessage)
	Removed   func(rabbitmq.BrowsedMessage)
	Published func(rabbitmq.Message, publish.Result) publish.Result // may change the result
}

// At does something at a step of a message: "taken", "confirmed" or "removed".
func (h *Hooks) At(step, id string, do func()) {
	at := func(this, taken string) {
		if this == step && taken == id {
			do()
		}
	}
	h.Taken = func(m rabbitmq.BrowsedMessage) { at("taken", m.ID) }
	h.Removed = func(m rabbitmq.BrowsedMessage) { at("removed", m.ID) }
	h.Published = func(m rabbitmq.Message, r publish.Result) publish.Result {
		at("confirmed", m.ID)
		return r
	}
}

func (h *Hooks) on(real deadletter.Session) deadletter.Session { return session{real, h} }

type session struct {
	deadletter.Session
	hooks *Hooks
}

func (s session) Browse(queue string) (deadletter.Browser, error) {
	b, err := s.Session.Browse(queue)
	return browser{b, s.hooks}, err
}

func (s session) NewPublisher(window int) (deadletter.Publisher, error) {
	p, err := s.Session.NewPublisher(window)
	return publisher{p, s.hooks}, err
}

type browser struct {
	deadletter.Browser
	hooks *Hooks
}

func (b browser) Next() (rabbitmq.BrowsedMessage, bool, error) {
	taken, ok, err := b.Browser.Next()
	if !ok {
		return taken, ok, err
	}
	call(b.hooks.Taken, taken)
	remove := taken.Remove
	taken.Remove = func() error {
		call(b.hooks.Removing, taken)
		err := remove()
		call(b.hooks.Removed, taken)
		return err
	}
	return taken, ok, err
}

func call(step func(rabbitmq.BrowsedMessage), taken rabbitmq.BrowsedMessage) {
	if step != nil {
		step(taken)
	}
}

type publisher struct {
	deadletter.Publisher
	hooks *Hooks
}

func (p publisher) Publish(ctx context.Context, messages []rabbitmq.Message, answer func(int, publish.Result)) {
	p.Publisher.Publish(ctx, messages, func(i int, r publish.Result) {
		if p.hooks.Published != nil {
			r = p.hooks.Published(messages[i], r)
		}
		answer(i, r)
	})
}
