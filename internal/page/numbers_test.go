package page

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestTheOverviewAnswersWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	p := newPage(t, Config{Demo: true})
	p.Numbers(func(ctx context.Context) (Numbers, error) {
		<-ctx.Done()
		return Numbers{Gates: []string{"the relay waits for a session with the broker"}}, ctx.Err()
	})
	got := ask(t, "GET", serve(t, p)+"/", "")
	got.want(t, http.StatusOK, "no numbers: the database does not answer")
	got.want(t, http.StatusOK, "the relay waits for a session with the broker")
}

func TestManyAskersAreOneQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		o := once[int64]{timeout: time.Second, ask: func(ctx context.Context) (int64, error) {
			time.Sleep(100 * time.Millisecond)
			return asked.Add(1), ctx.Err()
		}}
		first, cancel := context.WithCancel(t.Context())
		go func() { _, _ = o.get(first) }()
		synctest.Wait()
		cancel() // the others still get the answer
		for range 50 {
			go func() {
				if n, err := o.get(t.Context()); n != 1 || err != nil {
					t.Errorf("got %d, error %v", n, err)
				}
			}()
		}
		time.Sleep(500 * time.Millisecond)
		if n, err := o.get(t.Context()); n != 1 || err != nil {
			t.Errorf("half a second later: %d, error %v", n, err)
		}
		time.Sleep(time.Second)
		if n, err := o.get(t.Context()); n != 2 || err != nil {
			t.Errorf("later: %d, error %v", n, err)
		}
		failed := errors.New("away")
		o.ask = func(context.Context) (int64, error) { asked.Add(1); return 0, failed }
		time.Sleep(time.Second)
		for range 3 {
			if _, err := o.get(t.Context()); !errors.Is(err, failed) {
				t.Errorf("error %v", err)
			}
		}
		if asked.Load() != 3 {
			t.Errorf("it was asked %d times, want 3: an error is kept as well", asked.Load())
		}
	})
}

func TestARateIsTheDifferenceOfTwoSamples(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	var r Rate
	for _, step := range []struct {
		after time.Duration
		total int64
		want  float64
	}{
		{0, 100, Unknown},
		{2 * time.Second, 150, 25},
		{2100 * time.Millisecond, 160, 25}, // too early for a new one
		{4 * time.Second, 150, 0},
		{5 * time.Second, 10, Unknown}, // another table
		{2 * time.Minute, 10, Unknown}, // too long ago
	} {
		if got := r.PerSecond(step.total, at.Add(step.after)); got != step.want {
			t.Errorf("after %s: %v, want %v", step.after, got, step.want)
		}
	}
}
