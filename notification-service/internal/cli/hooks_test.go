package cli_test

import (
	"time"

	"example.com/transactional-outbox/internal/rabbitmq"
	dlqcli "example.com/transactional-outbox/notification-service/internal/cli"
)

// hooks are called at the steps of a command. Any of them may be nil.
type hooks struct {
	taken     func(rabbitmq.BrowsedMessage)
	removing  func(rabbitmq.BrowsedMessage)
	removed   func(rabbitmq.BrowsedMessage)
	published func(rabbitmq.Message, rabbitmq.Result) rabbitmq.Result // may change the result
}

func (s hooks) on(real dlqcli.Session) dlqcli.Session { return hooked{real, s} }

type hooked struct {
	dlqcli.Session
	hooks hooks
}

func (s hooked) Browse(queue string) (dlqcli.Browser, error) {
	b, err := s.Session.Browse(queue)
	return hookedBrowser{b, s.hooks}, err
}

func (s hooked) NewPublisher(window int) (dlqcli.Publisher, error) {
	p, err := s.Session.NewPublisher(window)
	return hookedPublisher{p, s.hooks}, err
}

type hookedBrowser struct {
	dlqcli.Browser
	hooks hooks
}

func (b hookedBrowser) Next() (rabbitmq.BrowsedMessage, bool, error) {
	taken, ok, err := b.Browser.Next()
	if !ok {
		return taken, ok, err
	}
	call(b.hooks.taken, taken)
	remove := taken.Remove
	taken.Remove = func() error {
		call(b.hooks.removing, taken)
		err := remove()
		call(b.hooks.removed, taken)
		return err
	}
	return taken, ok, err
}

func call(step func(rabbitmq.BrowsedMessage), taken rabbitmq.BrowsedMessage) {
	if step != nil {
		step(taken)
	}
}

type hookedPublisher struct {
	dlqcli.Publisher
	hooks hooks
}

func (p hookedPublisher) Publish(messages []rabbitmq.Message, timeout time.Duration) []rabbitmq.Result {
	results := p.Publisher.Publish(messages, timeout)
	for i := range results {
		if p.hooks.published != nil {
			results[i] = p.hooks.published(messages[i], results[i])
		}
	}
	return results
}
