package relay

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/publish"
)

// unbound is a broker without a queue for some keys. It counts the messages of each key.
type unbound struct {
	mu   sync.Mutex
	keys []string // no queue is bound for these
	sent map[string]int
}

func (u *unbound) broker() fakeBroker {
	return func(messages []publish.Message) []publish.Result {
		u.mu.Lock()
		defer u.mu.Unlock()
		results := make([]publish.Result, len(messages))
		for i, m := range messages {
			u.sent[m.Key]++
			results[i] = publish.Result{Outcome: publish.Confirmed}
			if slices.Contains(u.keys, m.Key) {
				results[i] = publish.Result{Outcome: publish.Returned, Err: errors.New("no queue is bound for it")}
			}
		}
		return results
	}
}

func (u *unbound) published(key string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.sent[key]
}

// commit adds an event with this key.
func (f *fakeOutbox) commit(key string, probe bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := uuid.New()
	if f.keys == nil {
		f.keys, f.probes = map[uuid.UUID]string{}, map[uuid.UUID]bool{}
	}
	f.pending, f.keys[id], f.probes[id] = append(f.pending, id), key, probe
}

// TestWithoutAQueueOnlyAProbeOfTheKeyIsPublished: one batch shows that no queue is bound, and
// then only a probe is published until the pause is over. Other keys are published.
func TestWithoutAQueueOnlyAProbeOfTheKeyIsPublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &unbound{keys: []string{"a.b"}, sent: map[string]int{}}
		events := newFakeOutbox(0)
		for range 300 {
			events.commit("a.b", false)
		}
		stop := start(t, newRelay(events), u.broker())
		synctest.Wait()
		if n := u.published("a.b"); n != testConfig.BatchSize {
			t.Errorf("%d published, want one batch of %d", n, testConfig.BatchSize)
		}
		events.commit("a.b", true)
		for range 10 {
			events.commit("a.c", false)
		}
		time.Sleep(testConfig.PollInterval) // the next poll, and the end of the first pause
		synctest.Wait()
		if n := u.published("a.b"); n != testConfig.BatchSize+1 {
			t.Errorf("%d published with the probe, want one more than %d", n, testConfig.BatchSize)
		}
		if n, later := events.count("published"), events.count("later"); n != 10 || later != 301 {
			t.Errorf("%d of other keys are published and %d of the key are rescheduled, want 10 and 301", n, later)
		}
		stop()
	})
}

// TestAConfirmBringsBackTheEventsOfItsKey, also if another replica has put them off.
func TestAConfirmBringsBackTheEventsOfItsKey(t *testing.T) {
	t.Parallel()
	for name, probe := range map[string]bool{"the probe": true, "another event, after the pause": false} {
		synctest.Test(t, func(t *testing.T) {
			u := &unbound{keys: []string{"a.b"}, sent: map[string]int{}}
			events := newFakeOutbox(0)
			events.commit("a.c", false)
			if !probe {
				events.commit("a.b", false)
			}
			r := newRelay(events)
			stop := start(t, r, u.broker())
			synctest.Wait()
			u.mu.Lock()
			u.keys = nil
			u.mu.Unlock()
			time.Sleep(maxProbe)
			events.commit("a.b", probe)
			r.Wake()
			synctest.Wait()
			if !slices.Equal(events.back, []string{"a.b"}) {
				t.Errorf("%s: brought back %v, want a.b", name, events.back)
			}
			stop()
		})
	}
}

// TestAMissingQueueIsLoggedOnce: so is its return.
func TestAMissingQueueIsLoggedOnce(t *testing.T) { //nolint:paralleltest // it replaces the default logger
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		u := &unbound{keys: []string{"a.b"}, sent: map[string]int{}}
		events := newFakeOutbox(0)
		stop := start(t, newRelay(events), u.broker())
		for range 20 {
			events.commit("a.b", true)
			time.Sleep(maxProbe)
		}
		u.mu.Lock()
		u.keys = nil
		u.mu.Unlock()
		events.commit("a.b", true)
		time.Sleep(maxProbe)
		events.commit("a.b", true)
		time.Sleep(maxProbe)
		stop()
	})
	for line, want := range map[string]int{"level=WARN": 1, "no queue is bound": 1, "a queue is bound again": 1} {
		if n := strings.Count(log.String(), line); n != want {
			t.Errorf("%d lines with %q, want %d", n, line, want)
		}
	}
}
