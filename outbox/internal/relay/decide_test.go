package relay

import (
	"cmp"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"example.com/transactional-outbox/outbox/internal/store"
	"example.com/transactional-outbox/outbox/publish"
)

// SEED chooses what the random tests do.
func init() { _ = flag.Set("rapid.seed", cmp.Or(os.Getenv("SEED"), "1")) }

// TestP4TheTableOfOutcomes: decide depends on an outcome and on the past only.
func TestP4TheTableOfOutcomes(t *testing.T) {
	t.Parallel()
	config, mail := testConfig.withDefaults(), emails().withDefaults()
	const shortest, longest = 4 * time.Second, 8 * time.Second // after three tries
	for name, test := range map[string]struct {
		outcome outcome
		err     error
		past    past
		event   eventState
		topic   topicState
		does    string // what else is written
		code    string
	}{
		"confirmed":                   {confirmed, nil, past{}, published, unchanged, "", ""},
		"confirmed, paused":           {confirmed, nil, past{isPaused: true}, published, resumed, "", ""},
		"confirmed, probe":            {confirmed, nil, past{isProbe: true}, published, resumed, "", ""},
		"returned":                    {returned, nil, past{}, halted, paused, "tried", "unroutable"},
		"busy":                        {busy, nil, past{}, halted, paused, "", "busy"},
		"refused":                     {refused, nil, past{failures: 1}, delayed, unchanged, "counts", "refused"},
		"refused, the second":         {refused, nil, past{failures: 2}, delayed, paused, "counts", "refused"},
		"refused, probe":              {refused, nil, past{isProbe: true}, delayed, paused, "counts", "refused"},
		"no answer":                   {noAnswer, nil, past{}, delayed, unchanged, "tried", "no_answer"},
		"no answer, paused":           {noAnswer, nil, past{isPaused: true}, halted, unchanged, "tried", "no_answer"},
		"lost":                        {lost, nil, past{}, retried, untried, "", ""},
		"not sent":                    {notSent, nil, past{}, retried, untried, "", ""},
		"closed, alone":               {closedAlone, nil, past{failures: 49}, delayed, unchanged, "counts", "session_closed"},
		"closed, alone, the fiftieth": {closedAlone, nil, past{failures: 50}, delayed, paused, "counts", "session_closed"},
		"closed, alone, probe":        {closedAlone, nil, past{isProbe: true}, delayed, paused, "counts", "session_closed"},
		"lost, alone":                 {lostAlone, nil, past{failures: 1}, delayed, unchanged, "", "session_closed"},
		"lost, alone, the second":     {lostAlone, nil, past{failures: 2}, delayed, paused, "", "session_closed"},
		"too large":                   {invalid, publish.ErrTooLarge, past{}, failed, untried, "", "too_large"},
		"a bad key":                   {invalid, publish.ErrBadTopic, past{}, failed, untried, "", "bad_topic"},
		"broken headers":              {invalid, publish.ErrBadHeaders, past{}, failed, untried, "", "bad_headers"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := config.decide(store.Event{ID: uuid.New(), Topic: "a", RetryCount: 3}, test.outcome, test.err, test.past)
			does := map[[2]bool]string{{true, false}: "counts", {false, true}: "tried", {true, true}: "counts and tried"}[[2]bool{d.failure.Counts, d.failure.Tried}]
			if d.event != test.event || d.topic != test.topic || does != test.does || d.event != published && d.failure.Code != test.code {
				t.Errorf("event %d, topic %d, %q, %q; want %+v", d.event, d.topic, does, d.failure.Code, test)
			}
			if d.failure.Halt != (d.event == halted) || d.failure.Final != (d.event == failed) || d.failure.Delay < shortest || d.failure.Delay > longest {
				t.Errorf("%+v", d.failure)
			}
		})
	}
	if d := config.decide(store.Event{}, refused, nil, past{isProbe: true, failures: 9}); d.topic != untried {
		t.Errorf("a new event that is a probe, and is refused: %+v", d)
	}
	for tried, want := range []time.Duration{time.Minute, time.Hour, time.Hour} { // P6: each attempt may be one more e-mail
		d := mail.decide(store.Event{RetryCount: tried}, noAnswer, nil, past{isPaused: true})
		if d.event != delayed || !d.failure.Counts || d.failure.Delay != want {
			t.Errorf("an e-mail without an answer, after %d tries: %+v", tried, d)
		}
	}
}

// TestP4AnEventThatIsLostAloneCountsAtTheTenthTime. For its topic it is one event.
func TestP4AnEventThatIsLostAloneCountsAtTheTenthTime(t *testing.T) {
	t.Parallel()
	topics, e, config := newTopics(), store.Event{ID: uuid.New(), Topic: "a"}, testConfig.withDefaults()
	for n := 1; n <= 10; n++ {
		p := topics.note(e, lostAlone, false)
		d := config.decide(e, lostAlone, nil, p)
		if d.failure.Counts != (n == 10) || p.failures != 1 || n > 2 && d.failure.Delay < time.Second {
			t.Errorf("time %d: %+v, %+v", n, p, d.failure)
		}
	}
}

func TestRetryDelayStaysBetweenBaseAndCap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := Config{
			RetryBase: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "base")),
			RetryCap:  time.Duration(rapid.Int64Range(int64(time.Hour), int64(24*time.Hour)).Draw(t, "cap")),
		}
		attempts := rapid.IntRange(0, 1<<20).Draw(t, "attempts")
		if d := c.retryDelay(attempts); d < c.RetryBase/2 || d > c.RetryCap {
			t.Fatalf("attempt %d waits %s, want %s to %s", attempts, d, c.RetryBase/2, c.RetryCap)
		}
	})
}

// TestATopicIsTriedAfterItsFirstPause, and not before.
func TestATopicIsTriedAfterItsFirstPause(t *testing.T) {
	t.Parallel()
	for longest, first := range map[time.Duration]time.Duration{10 * time.Second: time.Second / 2, 30 * time.Second: time.Second} {
		inVirtualTime(t, func(v *virtual) {
			v.config.LongestTopicPause = longest
			v.broker.answers = answerAll(publish.Returned)
			v.outbox.append("a", 10)
			v.run()
			v.sleep(first - time.Millisecond)
			before := v.broker.sent()
			v.sleep(probePause)
			if n := v.broker.sent(); n != before+1 {
				t.Errorf("after %s, %d events were sent, and then %d, want one more", first, before, n)
			}
		})
	}
}

// TestTheMemoryOfTopicsIsBounded, also if all of them are paused.
func TestTheMemoryOfTopicsIsBounded(t *testing.T) {
	t.Parallel()
	topics := newTopics()
	for range 2 * maxTopics {
		topics.pause(uuid.NewString())
	}
	if n := len(topics.all); n > maxTopics {
		t.Errorf("%d topics are remembered", n)
	}
}
