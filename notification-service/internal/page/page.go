// Package page has notification-service's pages: the numbers of the overview, the dead letters, this
// half of an order's way, and the decisions of operators. It only formats; the SQL is in the
// packages that own the tables, and package deadletter reads and changes the queue.
package page

import (
	"context"
	"time"

	"example.com/transactional-outbox/internal/auditpage"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/internal/postgres"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

// Dependencies are what the pages need.
type Dependencies struct {
	DB     *postgres.DB // a small pool of its own
	Broker rabbitmq.Config
	// The names of the queues.
	Queue, DeadLetters string
	Retries            []string
	// Letters is the queue of the dead letters. It waits for a session at most for this time.
	Letters func(timeout time.Duration) deadletter.Queue
	// WaitsFor says what the consumer waits for; it is empty while messages flow.
	WaitsFor func() []string
}

// Register adds the pages to the frame.
func Register(p *page.Page, d Dependencies) {
	n := newNumbers(d)
	p.Numbers(n.count)
	p.Background(n.queues.run)
	registerLetters(p, d)
	auditpage.Register(p, operate.NewLog(d.DB.Pool()), "message")
}

const (
	// readSession is how long a page waits for the broker, and changeSession is how long a decision
	// does.
	readSession   = 1500 * time.Millisecond
	changeSession = 10 * time.Second
)

func registerLetters(p *page.Page, d Dependencies) {
	l := letters{
		page: p, reader: deadletter.NewReader(d.Letters(readSession)), queue: d.Letters(changeSession),
		log: operate.NewLog(d.DB.Pool()), history: notification.NewHistory(d.DB),
	}
	p.Background(func(ctx context.Context) error {
		<-ctx.Done()
		l.reader.Close()
		return nil
	})
	p.Section("/dead", "Dead letters")
	p.Handle("GET /dead", page.Read, l.list)
	p.Handle("GET /dead/{key}", page.Read, l.detail)
	p.Handle("POST /dead/preview", page.Operate, l.preview)
	p.Handle("POST /dead/decide", page.Operate, l.decide)
	p.Handle("GET /orders/{id}", page.Read, l.order)
	p.Handle("GET /find", page.Read, l.find)
}
