package grace

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

type key struct{}

func TestAPeriodOutlivesItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
		finish, done := Period(ctx, time.Minute)
		defer done()
		if finish.Value(key{}) != "kept" {
			t.Error("the values are lost")
		}
		end()
		time.Sleep(time.Minute - time.Nanosecond)
		synctest.Wait()
		if finish.Err() != nil {
			t.Error("it ended too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if finish.Err() == nil {
			t.Error("it did not end")
		}
	})
}

// A goroutine that is left behind fails the test: synctest waits for every goroutine.
func TestAPeriodCanEndEarlyAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, ended := range []bool{false, true} {
			ctx, end := context.WithCancel(t.Context())
			finish, done := Period(ctx, 1000*time.Hour)
			if ended {
				end()
			}
			done()
			synctest.Wait()
			if finish.Err() == nil {
				t.Error("it did not end")
			}
			end()
		}
	})
}
