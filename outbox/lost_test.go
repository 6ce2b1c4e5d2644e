package outbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// oddClaims are claims that this function makes.
type oddClaims struct {
	*fakeOutbox
	claim func(n int) store.Claim
	made  int
}

func (o *oddClaims) Claim(context.Context, string, int, time.Duration) (store.Claim, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.made++
	return o.claim(o.made), nil
}

// TestP9AnEventWithoutPayloadIsFailedAndOthersArePublished: for example after a partial restore.
func TestP9AnEventWithoutPayloadIsFailedAndOthersArePublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost, good := uuid.New(), uuid.New()
		events := &oddClaims{fakeOutbox: newFakeOutbox(0), claim: func(n int) store.Claim {
			switch n {
			case 1:
				return store.Claim{Token: uuid.New(), NoPayload: []uuid.UUID{lost}, More: true}
			case 2:
				return store.Claim{Token: uuid.New(), Events: []store.Event{{ID: good, Topic: "a"}}}
			default:
				return store.Claim{}
			}
		}}
		r := testRelay(events)
		stop := start(t, r, answerAll(publish.Confirmed))
		time.Sleep(testConfig.PollInterval / 2)
		synctest.Wait()
		stop()
		if events.became[lost] != "failed" || events.became[good] != "published" {
			t.Errorf("they became %v", events.became)
		}
		if f := events.failures; len(f) != 1 || f[0].Code != "no_payload" || f[0].Counts || f[0].Reason == "" {
			t.Errorf("failures %+v", f)
		}
	})
}

// TestTheLatencyBeginsWithTheEventAndCountsTheClaimOnce: the claim takes a minute, and the
// destination a second.
func TestTheLatencyBeginsWithTheEventAndCountsTheClaimOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := &oddClaims{fakeOutbox: newFakeOutbox(0), claim: func(n int) store.Claim {
			if n > 1 {
				return store.Claim{}
			}
			time.Sleep(time.Minute)
			return store.Claim{Token: uuid.New(), Events: []store.Event{{ID: uuid.New(), Topic: "a", Age: 62}}}
		}}
		r := testRelay(events)
		stop := start(t, r, fakeBroker(func(messages []publish.Message) []publish.Result {
			time.Sleep(time.Second)
			return answerAll(publish.Confirmed)(messages)
		}))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		stop()
		if got := r.Stats().Latency.Sum; got != 63 {
			t.Errorf("a latency of %v s, want 63", got)
		}
	})
}

// TestStatsHaveTheTimeOfClaimsAndMarks that succeeded.
func TestStatsHaveTheTimeOfClaimsAndMarks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		events := &oddClaims{fakeOutbox: newFakeOutbox(0), claim: func(n int) store.Claim {
			if n > 2 {
				return store.Claim{}
			}
			time.Sleep(2 * time.Second)
			return store.Claim{Token: uuid.New(), Events: []store.Event{{ID: uuid.New(), Topic: "a"}}, Superseded: 3}
		}}
		r := testRelay(events)
		stop := start(t, r, answerAll(publish.Confirmed))
		time.Sleep(time.Minute)
		stop()
		s := r.Stats()
		if s.Claims.Seconds != 4 || s.Claims.Count < 3 || s.Marks != (Timing{Count: 2}) || s.Superseded != 6 {
			t.Errorf("claims %+v, marks %+v, %d superseded", s.Claims, s.Marks, s.Superseded)
		}
	})
}

// runUntilIdle publishes everything that is due, and stops.
func runUntilIdle(t *testing.T, r *Relay, broker publish.Session) {
	t.Helper()
	stop := start(t, r, broker)
	synctest.Wait()
	stop()
}

func TestAnEventIsFailedAndCountedOnce(t *testing.T) {
	t.Parallel()
	for lost, want := range map[bool][2]uint64{false: {1, 0}, true: {0, 1}} {
		synctest.Test(t, func(t *testing.T) {
			events := newFakeOutbox(1)
			events.leaseLost = lost
			r := testRelay(events)
			runUntilIdle(t, r, answerAll(publish.Invalid))
			if s := r.Stats(); s.Failed != want[0] || s.LeaseLost != want[1] {
				t.Errorf("lease lost %v: %v failed and %v lost are counted, want %v", lost, s.Failed, s.LeaseLost, want)
			}
		})
	}
}
