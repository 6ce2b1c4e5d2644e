package gate

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestOpenAndCloseReportAChange(t *testing.T) {
	t.Parallel()
	g := New()
	for _, step := range []struct {
		name string
		do   func() bool
		want bool
		open bool
	}{
		{"open the open gate", g.Open, false, true},
		{"close it", g.Close, true, false},
		{"close it again", g.Close, false, false},
		{"open it", g.Open, true, true},
	} {
		if got := step.do(); got != step.want || g.IsOpen() != step.open {
			t.Errorf("%s: changed %t, want %t; open %t, want %t", step.name, got, step.want, g.IsOpen(), step.open)
		}
	}
}

func TestWaitReturnsWhenTheGateOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New()
		g.Close()
		passed := make(chan error, 10)
		for range cap(passed) {
			go func() { passed <- g.Wait(t.Context()) }()
		}
		synctest.Wait()
		if len(passed) != 0 {
			t.Fatalf("%d waiters passed a closed gate", len(passed))
		}
		g.Open()
		for range cap(passed) {
			if err := <-passed; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestWaitReturnsTheCauseOfItsContext(t *testing.T) {
	t.Parallel()
	cause := errors.New("the cause")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	g := New()
	if err := g.Wait(ctx); err != nil {
		t.Errorf("an open gate: error %v", err)
	}
	g.Close()
	if err := g.Wait(ctx); !errors.Is(err, cause) {
		t.Errorf("a closed gate: error %v, want %v", err, cause)
	}
}
