package servertest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// Example runs the body of an example, which gets no testing.TB and wants real servers
// as well. What fails goes to the output, where the example expects something else.
func Example(body func(tb testing.TB)) {
	ctx, cancel := context.WithCancel(context.Background())
	tb := &exampleTB{ctx: ctx}
	done := make(chan struct{})
	go func() { // Fatal ends the goroutine
		defer close(done)
		defer tb.cleanUp(cancel)
		body(tb)
	}()
	<-done
}

// exampleTB is as much of a test as this package's functions need.
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

// cleanUp ends the context first, and then what was begun last, as tests do.
func (tb *exampleTB) cleanUp(cancel func()) {
	cancel()
	for _, f := range slices.Backward(tb.cleanups) {
		f()
	}
}
