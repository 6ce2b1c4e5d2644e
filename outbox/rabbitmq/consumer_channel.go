package rabbitmq

import (
	"sync"
	"time"
)

// channel is a consumer's channel, with the messages whose copies are being made: they must be
// acknowledged on it.
type channel struct {
	*Deliveries
	consumer  *Consumer
	copies    sync.WaitGroup
	unhandled []*message // they go back to the queue
}

func (c *Consumer) open(s *Session, prefetch int) (*channel, error) {
	deliveries, err := s.Consume(c.queue.Name, prefetch)
	if err != nil {
		return nil, err
	}
	return &channel{Deliveries: deliveries, consumer: c}, nil
}

// end ends the deliveries and gives back what was not handled. It gives back explicitly: if only
// the channel ended, RabbitMQ 4.3 would count it towards the delivery limit. The channel is closed
// when its copies are made.
func (ch *channel) end() {
	ch.Stop()
	for _, m := range ch.unhandled {
		m.endSpan("requeued", m.Requeue())
	}
	ch.consumer.moving.Go(func() {
		ch.copies.Wait()
		ch.Close()
	})
}

// longCopy is how long a copy takes as a rule, and much more.
const longCopy = 250 * time.Millisecond

// copyTakesLong waits for the copies of the channel, and returns true if that takes long.
func (ch *channel) copyTakesLong() bool {
	made := make(chan struct{})
	ch.consumer.moving.Go(func() {
		ch.copies.Wait()
		close(made)
	})
	timer := time.NewTimer(longCopy)
	defer timer.Stop()
	select {
	case <-made:
		return false
	case <-timer.C:
		return true
	}
}
