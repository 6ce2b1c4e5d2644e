package deadletter_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/outbox/operate"
)

// blockedSession is a session with a broker that has a memory alarm.
type blockedSession struct{ deadletter.Session }

func (blockedSession) Unblocked(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestAReplayDoesNotWaitForEverForABlockedBroker: meanwhile it holds the dead letters.
func TestAReplayDoesNotWaitForEverForABlockedBroker(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ids := f.AddMany(2)
	queue := f.Queue()
	connect := queue.Connect
	queue.Connect = func(ctx context.Context, use func(context.Context, deadletter.Session) error) error {
		return connect(ctx, func(ctx context.Context, s deadletter.Session) error { return use(ctx, blockedSession{s}) })
	}
	change := f.change(operate.Replay)
	change.MaxBlocked = 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	result, err := change.Run(ctx, queue)
	if err == nil || !strings.Contains(err.Error(), "memory alarm") || len(result.Changed) != 0 {
		t.Errorf("%+v, error %v", result, err)
	}
	if len(f.recorder.Rows) != 1 || f.recorder.Rows[0].Done != 0 {
		t.Errorf("recorded are %+v", f.recorder.Rows)
	}
	f.wantLeftAndSent(ids, nil)
}
