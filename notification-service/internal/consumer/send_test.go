package consumer

import (
	"context"
	"testing"
	"testing/synctest"

	"example.com/transactional-outbox/notification-service/internal/notification"
)

// TestP6TheNumberOfUnmarkedEmailsIsBounded: a SIGKILL now would repeat them. The next ones
// are sent when marks have been written.
func TestP6TheNumberOfUnmarkedEmailsIsBounded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		database := make(chan struct{})
		b.effect.mark = func(context.Context, notification.Notification) error { <-database; return nil }
		b.startAll(b.config.Prefetch * 4)
		synctest.Wait()
		bound := b.config.Workers + b.config.BatchSize
		b.wantCounts(map[string]int{"send": bound, "ack": 0})
		database <- struct{}{}
		synctest.Wait()
		b.wantCounts(map[string]int{"send": bound + 1, "ack": 1})
		close(database)
		synctest.Wait()
		b.wantCounts(map[string]int{"send": b.config.Prefetch * 4, "ack": b.config.Prefetch * 4})
	})
}

// TestAnEmailIsSentWhileEarlierOnesAreMarked: the connections to the mail server wait for no
// transaction.
func TestAnEmailIsSentWhileEarlierOnesAreMarked(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		database := make(chan struct{})
		b.effect.mark = func(context.Context, notification.Notification) error { <-database; return nil }
		b.startAll(b.config.Workers)
		synctest.Wait()
		b.wantCounts(map[string]int{"send": b.config.Workers, "ack": 0})
		b.startAll(1)
		synctest.Wait()
		b.wantCounts(map[string]int{"send": b.config.Workers + 1, "ack": 0})
		close(database)
	})
}
