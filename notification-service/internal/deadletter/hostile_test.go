package deadletter_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/notification-service/internal/deadletter"
)

// TestManyDetailsDoNotStopTheList: the results that are kept are no readings that wait.
func TestManyDetailsDoNotStopTheList(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.reader()
	f.AddMany(10)
	for _, l := range f.read() {
		if d, err := r.Detail(t.Context(), l.Key); err != nil || d.ID != l.ID {
			t.Errorf("%+v, error %v", d, err)
		}
	}
	if found, err := r.List(t.Context(), time.Hour); err != nil || len(found.Letters) != 10 {
		t.Errorf("%d dead letters, error %v", len(found.Letters), err)
	}
}

// TestALongReasonIsShortened: a list keeps thousands of them in memory.
func TestALongReasonIsShortened(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, last := range []string{"a", "b"} {
		f.Add(strings.Repeat("ü", 10_000), 0, func(p *amqp.Publishing) {
			p.MessageId, p.Headers["failure-reason"] = "", strings.Repeat("x", 50_000)+last
		})
	}
	letters := f.read()
	for _, l := range letters {
		if len(l.Code) > 600 || len(l.Reason) > 600 || !utf8.ValidString(l.Code) {
			t.Errorf("a code of %d bytes, a reason of %d", len(l.Code), len(l.Reason))
		}
	}
	if letters[0].Key == letters[1].Key {
		t.Error("what differs in the last byte has the same key")
	}
}

// TestIndentedJSONIsBounded: each value is a line, which begins with the depth of its nesting.
func TestIndentedJSONIsBounded(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("[", 90) + strings.Repeat("1,", 500_000) + "1" + strings.Repeat("]", 90)
	d := deadletter.Detail{BodyEncoding: "json", Body: jsontext.Value(body)}
	if n := len(d.BodyText()); n > 10<<20 {
		t.Errorf("%d bytes are shown as %d", len(body), n)
	}
}

// TestAnyTimeOfADeathIsJSON: the broker takes any time from a publisher.
func TestAnyTimeOfADeathIsJSON(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, seconds := range []int64{-1 << 63, -1 << 40, 1 << 40, 1<<63 - 1} {
		f.Add("x", 0, func(p *amqp.Publishing) {
			p.Headers = amqp.Table{"x-death": []any{amqp.Table{"reason": "rejected", "queue": "q", "time": time.Unix(seconds, 0)}}}
		})
	}
	for _, l := range f.read() {
		if _, err := json.Marshal(l); err != nil {
			t.Errorf("%v: %v", l.FailedAt, err)
		}
	}
}
