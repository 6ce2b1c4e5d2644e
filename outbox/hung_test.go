package outbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// hungOutbox does not answer after the first claim.
type hungOutbox struct{ *fakeOutbox }

func (hungOutbox) Settle(ctx context.Context, _ store.Settlement) (store.Settled, error) {
	<-ctx.Done()
	return store.Settled{}, ctx.Err()
}

// TestP12ADatabaseThatHangsDelaysTheEndALittle: the relay ends ShutdownTimeout after its context, and
// the attempt that runs then has little time. When the context ends does not matter.
func TestP12ADatabaseThatHangsDelaysTheEndALittle(t *testing.T) {
	t.Parallel()
	for after := time.Duration(0); after < 40*time.Second; after += 3 * time.Second {
		synctest.Test(t, func(t *testing.T) {
			r := testRelay(hungOutbox{newFakeOutbox(3)})
			stop := start(t, r, answerAll(publish.Confirmed))
			time.Sleep(after)
			began := time.Now()
			stop()
			if took := time.Since(began); took > r.config.ShutdownTimeout+2*lastStatementTimeout {
				t.Errorf("after %s it takes %s to end", after, took)
			}
		})
	}
}
