package page

import (
	"context"
	"errors"
	"sync"
	"time"

	"example.com/transactional-outbox/internal/panics"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

const (
	maxIdle = time.Minute // after it, the session is closed
	// sessionWait must be well below the second that the page of order-service waits for all numbers.
	// Otherwise that page has none of them while the broker is away.
	sessionWait = 400 * time.Millisecond
)

// errNoSession says that the numbers of the queues are missing.
var errNoSession = errors.New("no session with the broker")

// queueCounter counts the messages in the queues. It has its own session with the broker, which it
// opens when somebody asks, and closes when nobody has asked for a minute.
type queueCounter struct {
	broker rabbitmq.Config
	asked  chan struct{}
	asking chan struct{} // holds a value while the broker is asked

	mu      sync.Mutex
	session *rabbitmq.Session
	changed chan struct{} // closed when there is a session
}

func newQueueCounter(broker rabbitmq.Config) *queueCounter {
	return &queueCounter{broker: broker, asked: make(chan struct{}, 1), asking: make(chan struct{}, 1), changed: make(chan struct{})}
}

// run keeps the session while it is in use, until ctx ends.
func (q *queueCounter) run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.asked:
		}
		used, stop := context.WithCancel(ctx)
		idle := time.AfterFunc(maxIdle, stop)
		err := rabbitmq.KeepConnected(used, q.broker, func(ctx context.Context, s *rabbitmq.Session) error {
			q.set(s)
			defer q.set(nil)
			for {
				select {
				case <-ctx.Done():
					return nil
				case <-q.asked:
					idle.Reset(maxIdle)
				}
			}
		})
		idle.Stop()
		stop()
		if err != nil {
			return err
		}
	}
}

func (q *queueCounter) set(s *rabbitmq.Session) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.session = s
	if s != nil {
		close(q.changed)
	} else {
		q.changed = make(chan struct{})
	}
}

// count returns how many messages are ready in each queue; -1 if there is no such queue. It waits
// for a short time for the session.
func (q *queueCounter) count(ctx context.Context, queues []string) (map[string]int64, error) {
	select {
	case q.asked <- struct{}{}:
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, sessionWait)
	defer cancel()
	q.mu.Lock()
	changed := q.changed
	q.mu.Unlock()
	select {
	case <-changed:
	case <-ctx.Done():
		return nil, errNoSession
	}
	q.mu.Lock()
	session := q.session
	q.mu.Unlock()
	if session == nil {
		return nil, errNoSession
	}
	return q.ask(ctx, session, queues)
}

// ask returns when ctx ends, also if the broker is silent. The session ends some seconds later, and
// the question with it. One question is asked at a time.
func (q *queueCounter) ask(ctx context.Context, session *rabbitmq.Session, queues []string) (map[string]int64, error) {
	select {
	case q.asking <- struct{}{}:
	case <-ctx.Done():
		return nil, errNoSession
	}
	var (
		counts   map[string]int64
		err      error
		answered = make(chan struct{})
	)
	go func() {
		err = panics.Catch(ctx, func() (err error) {
			counts, err = countReady(session, queues)
			return err
		})
		<-q.asking
		close(answered)
	}()
	select {
	case <-answered:
		return counts, err
	case <-ctx.Done():
		return nil, errNoSession
	}
}

func countReady(session *rabbitmq.Session, queues []string) (map[string]int64, error) {
	counts := map[string]int64{}
	for _, queue := range queues {
		n, exists, err := session.CountReady(queue)
		if err != nil {
			return nil, err
		}
		if counts[queue] = int64(n); !exists {
			counts[queue] = -1
		}
	}
	return counts, nil
}
