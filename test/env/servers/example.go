package servers

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// Example runs the body of an example that needs real servers: Go gives an example no
// testing.TB. A failure is printed, so that the output of the example is not as expected.
func Example(body func(tb testing.TB)) {
	ctx, cancel := context.WithCancel(context.Background())
	tb := &exampleTB{ctx: ctx}
	done := make(chan struct{})
	go func() { // Fatal ends this goroutine
		defer close(done)
		defer tb.cleanUp(cancel)
		body(tb)
	}()
	<-done
}

// exampleTB has those methods of a test that this package calls.
type exampleTB struct {
	testing.TB
	ctx      context.Context
	cleanups []func()
}

func (*exampleTB) Helper()                     {}
func (tb *exampleTB) Context() context.Context { return tb.ctx }
func (tb *exampleTB) Cleanup(f func())         { tb.cleanups = append(tb.cleanups, f) }

func (*exampleTB) Fatal(args ...any) {
	fmt.Println(args...)
	runtime.Goexit()
}

func (tb *exampleTB) Fatalf(format string, args ...any) { tb.Fatal(fmt.Sprintf(format, args...)) }

// cleanUp ends the context and then runs the cleanups, the last one first, as tests do.
func (tb *exampleTB) cleanUp(cancel func()) {
	cancel()
	for _, f := range slices.Backward(tb.cleanups) {
		f()
	}
}
