package deadletter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/outbox/operate"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

func (f fixture) reader() *deadletter.Reader {
	r := deadletter.NewReader(f.Queue())
	f.Cleanup(r.Close)
	return r
}

const order = "0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57"

func TestAReaderKeepsWhatItHasSeen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r, taken := f.reader(), 0
	f.Hooks.Taken = func(rabbitmq.BrowsedMessage) { taken++ }
	id := f.Add("malformed", 0, func(p *amqp.Publishing) {
		p.Body, p.Headers["traceparent"] = []byte(`{"order_id": "`+order+`"}`), "00-2057d1905555159851ad17d795cfa26d-00f067aa0ba902b7-01"
	})
	f.Add("panicked", 0)
	for range 3 {
		found, err := r.List(t.Context(), time.Hour)
		if err != nil || len(found.Letters) != 2 || found.Total != 2 || time.Since(found.At) > time.Minute {
			t.Fatalf("%+v, error %v", found, err)
		}
		if e := found.Letters[0]; e.ID != id || e.OrderID != order || e.TraceID != "2057d1905555159851ad17d795cfa26d" {
			t.Errorf("%+v", e)
		}
		if e := found.Letters[1]; e.OrderID != "" || e.TraceID != "" {
			t.Errorf("%+v", e)
		}
	}
	if taken != 2 {
		t.Errorf("%d messages were taken, want 2", taken)
	}
	if _, err := r.List(t.Context(), 0); err != nil || taken != 4 {
		t.Errorf("%d messages were taken, error %v", taken, err)
	}
}

func TestAReaderFindsTheDetail(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.reader()
	f.Add("malformed", 0)
	f.Add("panicked", 0, func(p *amqp.Publishing) { p.Body = []byte("this one") })
	for _, l := range f.read() {
		if d, err := r.Detail(t.Context(), l.Key); err != nil || d.Key != l.Key || (d.Code == "panicked") != (d.BodyText() == "this one") {
			t.Errorf("%+v, error %v", d, err)
		}
	}
	if _, err := r.Detail(t.Context(), "none"); !errors.Is(err, deadletter.ErrGone) {
		t.Errorf("error %v", err)
	}
	if len(f.read()) != 2 {
		t.Error("the queue has lost a message")
	}
}

// TestWhoDoesNotWaitGetsTheResultLater: the reading goes on.
func TestWhoDoesNotWaitGetsTheResultLater(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.reader()
	f.AddMany(1)
	goOn := make(chan struct{})
	f.Hooks.Taken = func(rabbitmq.BrowsedMessage) { <-goOn }
	if _, err := r.List(ended(t), time.Hour); !errors.Is(err, deadletter.ErrReading) {
		t.Errorf("error %v", err)
	}
	close(goOn)
	if found, err := r.List(t.Context(), time.Hour); err != nil || len(found.Letters) != 1 {
		t.Errorf("%+v, error %v", found, err)
	}
}

// TestAChangeAndAReadingDoNotHideMessagesFromEachOther.
func TestAChangeAndAReadingDoNotHideMessagesFromEachOther(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := f.reader()
	ids := f.AddMany(3)
	if found, err := r.List(t.Context(), time.Hour); err != nil || len(found.Letters) != 3 {
		t.Fatalf("%+v, error %v", found, err)
	}
	f.Check(r.Exclusive(t.Context(), func() error {
		if _, err := r.Detail(within(t, 50*time.Millisecond), "none"); !errors.Is(err, deadletter.ErrReading) {
			t.Errorf("it reads during the change: error %v", err)
		}
		result, err := f.change(operate.Discard).Run(t.Context(), f.Queue())
		if len(result.Changed) != len(ids) {
			t.Errorf("%+v", result)
		}
		return err
	}))
	if found, err := r.List(t.Context(), time.Hour); err != nil || len(found.Letters) != 0 {
		t.Errorf("after the change: %+v, error %v", found, err)
	}
	taken, goOn := make(chan struct{}), make(chan struct{})
	f.Hooks.Taken = func(rabbitmq.BrowsedMessage) {
		close(taken)
		<-goOn
	}
	f.AddMany(1)
	_, _ = r.List(ended(t), 0)
	select {
	case <-taken:
	case <-time.After(30 * time.Second):
		t.Fatal("the reading takes no message")
	}
	if err := r.Exclusive(within(t, 50*time.Millisecond), func() error { return nil }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("it changes during the reading: error %v", err)
	}
	close(goOn)
}

func within(t *testing.T, limit time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// TestAnErrorIsNotKept: the next caller reads again.
func TestAnErrorIsNotKept(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	missing := f.Queues
	missing.Letters += ".missing"
	r := deadletter.NewReader(missing.Queue())
	t.Cleanup(r.Close)
	for range 2 {
		if _, err := r.List(t.Context(), time.Hour); !errors.Is(err, rabbitmq.ErrNoQueue) || !strings.Contains(err.Error(), "start notification-service") {
			t.Errorf("error %v", err)
		}
	}
	f.Declare(missing.Letters, missing.Letters, amqp.Table{})
	if _, err := r.List(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
}

func TestAClosedReaderReadsNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	r := deadletter.NewReader(f.Queue())
	r.Close()
	if _, err := r.List(t.Context(), 0); !errors.Is(err, deadletter.ErrReading) {
		t.Errorf("error %v", err)
	}
}
