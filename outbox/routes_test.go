package outbox

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

	"example.com/transactional-outbox/outbox/publish"
)

// unbound is a broker without a queue for some topics. It counts the messages of each topic.
type unbound struct {
	mu     sync.Mutex
	topics []string // no queue is bound for these
	sent   map[string]int
}

func (u *unbound) broker() fakeBroker {
	return func(messages []publish.Message) []publish.Result {
		u.mu.Lock()
		defer u.mu.Unlock()
		results := make([]publish.Result, len(messages))
		for i, m := range messages {
			u.sent[m.Topic]++
			results[i] = publish.Result{Outcome: publish.Confirmed}
			if slices.Contains(u.topics, m.Topic) {
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

// commit adds an event with this topic.
func (f *fakeOutbox) commit(key string, probe bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := uuid.New()
	if f.topics == nil {
		f.topics, f.probes = map[uuid.UUID]string{}, map[uuid.UUID]bool{}
	}
	f.pending, f.topics[id], f.probes[id] = append(f.pending, id), key, probe
}

// TestWithoutAQueueOnlyAProbeOfTheTopicIsPublished: one batch shows that no queue is bound, and
// then only a probe is published until the pause is over. Other topics are published.
func TestWithoutAQueueOnlyAProbeOfTheTopicIsPublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		u := &unbound{topics: []string{"a.b"}, sent: map[string]int{}}
		events := newFakeOutbox(0)
		for range 300 {
			events.commit("a.b", false)
		}
		stop := start(t, testRelay(events), u.broker())
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
			t.Errorf("%d of other topics are published and %d of the topic are rescheduled, want 10 and 301", n, later)
		}
		stop()
	})
}

// TestAConfirmBringsBackTheEventsOfItsTopic, also if another replica has put them off.
func TestAConfirmBringsBackTheEventsOfItsTopic(t *testing.T) {
	t.Parallel()
	for name, probe := range map[string]bool{"the probe": true, "another event, after the pause": false} {
		synctest.Test(t, func(t *testing.T) {
			u := &unbound{topics: []string{"a.b"}, sent: map[string]int{}}
			events := newFakeOutbox(0)
			events.commit("a.c", false)
			if !probe {
				events.commit("a.b", false)
			}
			r := testRelay(events)
			stop := start(t, r, u.broker())
			synctest.Wait()
			u.mu.Lock()
			u.topics = nil
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
func TestAMissingQueueIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	config := testConfig
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	synctest.Test(t, func(t *testing.T) {
		u := &unbound{topics: []string{"a.b"}, sent: map[string]int{}}
		events := newFakeOutbox(0)
		stop := start(t, relayWith(config, events), u.broker())
		for range 20 {
			events.commit("a.b", true)
			time.Sleep(maxProbe)
		}
		u.mu.Lock()
		u.topics = nil
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
