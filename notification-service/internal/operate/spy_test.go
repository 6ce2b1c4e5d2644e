package operate_test

import (
	"time"

	"example.com/transactional-outbox/internal/rabbitmq"
	"example.com/transactional-outbox/notification-service/internal/operate"
)

// spy is called at the steps of a command; what is nil is not called.
type spy struct {
	taken     func(rabbitmq.Taken)
	removing  func(rabbitmq.Taken)
	removed   func(rabbitmq.Taken)
	published func(rabbitmq.Message, rabbitmq.Result) rabbitmq.Result // may change the result
}

func (s spy) on(real operate.Session) operate.Session { return spied{real, s} }

type spied struct {
	operate.Session
	spy spy
}

func (s spied) Browse(queue string) (operate.Browser, error) {
	b, err := s.Session.Browse(queue)
	return spiedBrowser{b, s.spy}, err
}

func (s spied) NewPublisher(window int) (operate.Publisher, error) {
	p, err := s.Session.NewPublisher(window)
	return spiedPublisher{p, s.spy}, err
}

type spiedBrowser struct {
	operate.Browser
	spy spy
}

func (b spiedBrowser) Next() (rabbitmq.Taken, bool, error) {
	taken, ok, err := b.Browser.Next()
	if !ok {
		return taken, ok, err
	}
	call(b.spy.taken, taken)
	remove := taken.Remove
	taken.Remove = func() error {
		call(b.spy.removing, taken)
		err := remove()
		call(b.spy.removed, taken)
		return err
	}
	return taken, ok, err
}

func call(step func(rabbitmq.Taken), taken rabbitmq.Taken) {
	if step != nil {
		step(taken)
	}
}

type spiedPublisher struct {
	operate.Publisher
	spy spy
}

func (p spiedPublisher) Publish(messages []rabbitmq.Message, timeout time.Duration) []rabbitmq.Result {
	results := p.Publisher.Publish(messages, timeout)
	for i := range results {
		if p.spy.published != nil {
			results[i] = p.spy.published(messages[i], results[i])
		}
	}
	return results
}
