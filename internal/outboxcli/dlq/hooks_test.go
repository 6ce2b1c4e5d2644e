package dlq_test

import (
	"context"

	"example.com/transactional-outbox/internal/outboxcli/dlq"
	"example.com/transactional-outbox/outbox/publish"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// hooks are called at the steps of a change. Any of them may be nil.
type hooks struct {
	Taken    func(rabbitmq.DeadLetter)
	Changing func(rabbitmq.DeadLetter)
	Changed  func(rabbitmq.DeadLetter)
	// Answer replaces what happens to a dead letter that is replayed. If it returns nil, it happens.
	Answer func(rabbitmq.DeadLetter) *publish.Result
}

// at does something at a step of a message: "taken" or "removed".
func (h *hooks) at(step, id string, do func()) {
	at := func(this, taken string) {
		if this == step && taken == id {
			do()
		}
	}
	h.Taken = func(l rabbitmq.DeadLetter) { at("taken", l.ID) }
	h.Changed = func(l rabbitmq.DeadLetter) { at("removed", l.ID) }
}

func (h *hooks) on(open dlq.Open) dlq.Open {
	return func(ctx context.Context, use func(context.Context, dlq.Letters) error) error {
		return open(ctx, func(ctx context.Context, l dlq.Letters) error { return use(ctx, letters{l, h}) })
	}
}

type letters struct {
	dlq.Letters
	hooks *hooks
}

func (l letters) Next() (rabbitmq.DeadLetter, bool, error) {
	taken, ok, err := l.Letters.Next()
	if ok {
		call(l.hooks.Taken, taken)
	}
	return taken, ok, err
}

func (l letters) Replay(ctx context.Context, d rabbitmq.DeadLetter, headers map[string]any) publish.Result {
	call(l.hooks.Changing, d)
	if l.hooks.Answer != nil {
		if r := l.hooks.Answer(d); r != nil {
			return *r
		}
	}
	r := l.Letters.Replay(ctx, d, headers)
	call(l.hooks.Changed, d)
	return r
}

func (l letters) Discard(d rabbitmq.DeadLetter) error {
	call(l.hooks.Changing, d)
	err := l.Letters.Discard(d)
	call(l.hooks.Changed, d)
	return err
}

func call(step func(rabbitmq.DeadLetter), d rabbitmq.DeadLetter) {
	if step != nil {
		step(d)
	}
}
