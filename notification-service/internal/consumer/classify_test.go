package consumer

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"example.com/transactional-outbox/notification-service/internal/notification"
)

// TestP9ErrorsOfTheDatabaseHaveTheirKind: only an error that blames the values of a message is
// the message's own at once.
func TestP9ErrorsOfTheDatabaseHaveTheirKind(t *testing.T) {
	t.Parallel()
	const certain, likely, unclear, own = "unavailable", "unavailable, or its own", "unclear", "its own"
	for want, codes := range map[string][]string{
		certain: {"08006", "25006", "28000", "28P01", "3D000", "53100", "57P03"},
		likely:  {"3F000", "42501", "42P01", "42703", "55000", "58030", "58P01", "XX000", "XX001"},
		unclear: {"40P01", "55P03", "57014", "54000", "0A000", "P0001", "25P02"},
		own:     {"22021", "22008", "22P05", "23505", "23514"},
	} {
		for _, code := range codes {
			err := classifyDatabase(&pgconn.PgError{Code: code})
			got := own
			if away, ok := errors.AsType[Unavailable](err); ok {
				got = certain
				if ownFault(away) != nil {
					got = likely
				}
			}
			if _, ok := errors.AsType[Unclear](err); ok {
				got = unclear
			}
			if got != want {
				t.Errorf("%s is %s, want %s", code, got, want)
			}
			if isDatabaseDown(err) != (want == certain) {
				t.Errorf("%s: the whole batch fails: %t", code, isDatabaseDown(err))
			}
		}
	}
}

// TestP9ADatabaseThatRefusesAllMessagesDeadLettersNone: for example, a privilege is revoked.
func TestP9ADatabaseThatRefusesAllMessagesDeadLettersNone(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"28P01", "42501", "42P01", "58030", "XX001", "P0001"} {
		inBubbleNamed(t, code, func(b *fixture) {
			var mended atomic.Bool
			b.effect.record = func([]notification.Request) error {
				if mended.Load() {
					return nil
				}
				return &pgconn.PgError{Code: code}
			}
			b.startAll(40)
			time.Sleep(5 * time.Minute)
			b.wantCounts(map[string]int{"copy": 0, "ack": 0})
			mended.Store(true)
			time.Sleep(maxSuspectPause)
			b.wantCounts(map[string]int{"copy": 0, "ack": 40})
		})
	}
}

// TestP9AMessageWithCorruptRowsIsAtFault after some failures, if others succeed in between.
func TestP9AMessageWithCorruptRowsIsAtFault(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *fixture) {
		corrupt := &pgconn.PgError{Code: "XX001"}
		d := newDelivery(b.Context(), b.delivery(newMessage()))
		defer b.consumer.setContexts(b.Context(), d)()
		enter := func() *permit {
			p, err := b.consumer.database.enter(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			return p
		}
		for failures := range maxFailures + 1 {
			p := enter()
			err := d.classify(p, &d.databaseFailures, classifyDatabase(corrupt))
			p.release()
			if isHeld := errors.Is(err, errTryAgain); isHeld != (failures < maxFailures) || !errors.Is(err, corrupt) {
				b.Errorf("after %d failures: %v", failures+1, err)
			}
			other := enter()
			other.succeed()
			other.release()
		}
	})
}

// TestOnlyTimesThatTheDatabaseKnowsAreValid: others would make it refuse the whole batch.
func TestOnlyTimesThatTheDatabaseKnowsAreValid(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int64]bool{
		time.Now().Unix(): true, 0: true, 1 << 50: false, -1 << 50: false,
		-18444948681709: false, // the driver would take it for 2026
	} {
		if got := isTime(time.Unix(seconds, 0)); got != want {
			t.Errorf("%s is valid: %t, want %t", time.Unix(seconds, 0), got, want)
		}
	}
}
