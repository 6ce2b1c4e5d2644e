package servers_test

import (
	"fmt"
	"runtime"
	"testing"
)

// recordedTB is a test whose failure is expected.
type recordedTB struct {
	testing.TB
	message string
}

func (tb *recordedTB) Fatalf(format string, args ...any) {
	tb.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// fatalOf returns the message with which the test body fails.
func fatalOf(t *testing.T, body func(testing.TB)) string {
	tb := &recordedTB{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		body(tb)
	}()
	<-done
	return tb.message
}
