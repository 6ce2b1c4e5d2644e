package outbox

import (
	"context"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"

	"example.com/transactional-outbox/outbox/publish"
)

// work runs the workers until ctx ends.
func (r *Relay) work(ctx context.Context) error {
	host, _ := os.Hostname()
	all, ctx := errgroup.WithContext(ctx)
	for i := range r.config.Workers {
		all.Go(func() error { return r.keepWorking(ctx, fmt.Sprintf("%s/%d/%d", host, os.Getpid(), i), false) })
	}
	all.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-r.tryTopics: // a topic is paused
			}
			if err := r.keepWorking(ctx, fmt.Sprintf("%s/%d/trials", host, os.Getpid()), true); err != nil {
				return err
			}
		}
	})
	return all.Wait()
}

// maxReplaced bounds the connections that are kept for late answers, by one relay. Each worker replaces
// its own once a second at most, and each is kept for ConfirmTimeout. With the defaults, two workers
// and the one for trial events keep up to 30. At the limit a worker stays on a connection that answers
// nothing, and the topics of what it sends pause.
const maxReplaced = 32

// keepWorking runs a worker on one connection after the other, until ctx ends; a worker for trial events
// only until no topic is paused. If the destination does not read a connection any more, the worker
// is replaced by another one with a new connection. It stays until all that it has in flight is
// answered or too late.
func (r *Relay) keepWorking(ctx context.Context, name string, trials bool) error {
	var all sync.WaitGroup
	defer all.Wait()
	for {
		own, leave := context.WithCancel(ctx)
		ended, replaced := make(chan error, 1), make(chan struct{})
		all.Go(func() {
			defer leave()
			err := r.to.KeepConnected(own, func(ctx context.Context, session publish.Session) error {
				w := &worker{Relay: r, name: name, trials: trials, session: session, answers: newAnswers(), leave: leave, tries: 1}
				_, w.oneByOne = session.(publish.OneByOne)
				w.replace = func() { close(replaced) } // a worker is replaced once: it claims no more
				r.state.sessions.Add(1)
				defer r.state.sessions.Add(-1)
				return w.run(ctx)
			})
			if isClosed(replaced) {
				r.replacedWorkers.Add(-1)
			}
			if err == nil && own.Err() == nil {
				err = fmt.Errorf("outbox: KeepConnected of %s returned before its context had ended", r.destination)
			}
			ended <- err
		})
		select {
		case err := <-ended:
			return err
		case <-replaced:
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
