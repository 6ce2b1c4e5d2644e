package googlepubsub_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"example.com/transactional-outbox/examples/pubsub/fake"
	"example.com/transactional-outbox/outbox/publish"
)

// recorder keeps the requests to publish, and confirms them itself: the fake takes no request of
// more than 4 MB.
type recorder struct {
	mu       sync.Mutex
	requests []*pubsubpb.PublishRequest
}

func (r *recorder) interceptor() grpc.DialOption {
	return grpc.WithUnaryInterceptor(func(ctx context.Context, method string, request, reply any,
		conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		p, ok := request.(*pubsubpb.PublishRequest)
		if !ok {
			return invoke(ctx, method, request, reply, conn, options...)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.requests = append(r.requests, p)
		reply.(*pubsubpb.PublishResponse).MessageIds = make([]string, len(p.Messages))
		return nil
	})
}

func TestARequestHasOneOrderingKey(t *testing.T) {
	t.Parallel()
	l, r := newLab(t), &recorder{}
	p := l.publisher(l.session(time.Hour, r.interceptor()))
	var batch []publish.Message
	for i := range 12 {
		batch = append(batch, message(fmt.Sprint("group-", i%4)))
	}
	publish.All(p, batch, limit)
	if len(r.requests) != 4 {
		t.Errorf("%d requests for 4 groups", len(r.requests))
	}
	for i, request := range r.requests {
		for _, m := range request.Messages {
			sent := batch[slices.IndexFunc(batch, func(b publish.Message) bool { return b.ID == m.Attributes["id"] })]
			if m.OrderingKey != request.Messages[0].OrderingKey || m.OrderingKey != sent.Group {
				t.Errorf("request %d has the ordering key %q for a message of %s", i, m.OrderingKey, sent.Group)
			}
		}
	}
}

func TestRequestsStayWithinTheLimits(t *testing.T) {
	t.Parallel()
	l, r := newLab(t), &recorder{}
	p := l.publisher(l.session(time.Hour, r.interceptor()))
	var batch []publish.Message
	for range 2500 {
		batch = append(batch, message("many"))
	}
	for range 5 {
		m := message("large")
		m.Body = make([]byte, 4_000_000)
		batch = append(batch, m)
	}
	for i, result := range publish.All(p, batch, limit) {
		if result.Outcome != publish.Confirmed {
			t.Fatalf("message %d is %d: %v", i, result.Outcome, result.Err)
		}
	}
	if want := 3 + 3; len(r.requests) != want {
		t.Errorf("%d requests, want %d", len(r.requests), want)
	}
	for _, request := range r.requests {
		if bytes := proto.Size(request); bytes > 10_000_000 || len(request.Messages) > 1000 {
			t.Errorf("a request has %d messages and %d bytes", len(request.Messages), bytes)
		}
	}
}

func TestLimitsAreCheckedBeforeSending(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := l.publisher(l.session(time.Hour))
	headers := func(n int) map[string]any {
		all := map[string]any{}
		for i := range n {
			all[fmt.Sprint("header-", i)] = "value"
		}
		return all
	}
	long := func(n int) string { return strings.Repeat("x", n) }
	const own = 3 // attributes that message sets: id, key, content-type
	for name, test := range map[string]struct {
		change func(*publish.Message)
		reason error // nil if it can be sent
	}{
		"body":            {func(m *publish.Message) { m.Body = make([]byte, 10_000_000) }, publish.ErrTooLarge},
		"group of 1024":   {func(m *publish.Message) { m.Group = long(1024) }, nil},
		"group of 1025":   {func(m *publish.Message) { m.Group = long(1025) }, publish.ErrBadTopic},
		"group not UTF-8": {func(m *publish.Message) { m.Group = "\xff" }, publish.ErrBadTopic},
		"key of 1024":     {func(m *publish.Message) { m.Topic = long(1024) }, nil},
		"key of 1025":     {func(m *publish.Message) { m.Topic = long(1025) }, publish.ErrBadTopic},
		"key not UTF-8":   {func(m *publish.Message) { m.Topic = "\xff" }, publish.ErrBadTopic},
		"97 headers":      {func(m *publish.Message) { m.Headers = headers(100 - own) }, nil},
		"98 headers":      {func(m *publish.Message) { m.Headers = headers(101 - own) }, publish.ErrBadHeaders},
		"value of 1024":   {func(m *publish.Message) { m.Headers["a"] = long(1024) }, nil},
		"value of 1025":   {func(m *publish.Message) { m.Headers["a"] = long(1025) }, publish.ErrBadHeaders},
		"value not UTF-8": {func(m *publish.Message) { m.Headers["a"] = "\xff" }, publish.ErrBadHeaders},
		"name of 256":     {func(m *publish.Message) { m.Headers[long(256)] = "a" }, nil},
		"name of 257":     {func(m *publish.Message) { m.Headers[long(257)] = "a" }, publish.ErrBadHeaders},
		"empty name":      {func(m *publish.Message) { m.Headers[""] = "a" }, publish.ErrBadHeaders},
		"reserved name":   {func(m *publish.Message) { m.Headers["google"] = "a" }, publish.ErrBadHeaders},
		"name is taken":   {func(m *publish.Message) { m.Headers["id"] = "a" }, publish.ErrBadHeaders},
		"number":          {func(m *publish.Message) { m.Headers["a"] = int64(1) }, nil},
		"other type":      {func(m *publish.Message) { m.Headers["a"] = true }, publish.ErrBadHeaders},
	} {
		m, before := message("a"), l.server.Calls(fake.Publish)
		test.change(&m)
		result := publish.All(p, []publish.Message{m}, limit)[0]
		sent := l.server.Calls(fake.Publish) - before
		switch {
		case test.reason == nil && (result.Outcome != publish.Confirmed || sent != 1):
			t.Errorf("%s: %d (%v), %d requests, want it to be confirmed", name, result.Outcome, result.Err, sent)
		case test.reason != nil && (result.Outcome != publish.Invalid || !errors.Is(result.Err, test.reason) || sent != 0):
			t.Errorf("%s: %d (%v), %d requests, want it to be invalid because %v", name, result.Outcome, result.Err, sent, test.reason)
		}
	}
}

// TestNothingOvertakesARefusedRequest has a group that needs two requests.
func TestNothingOvertakesARefusedRequest(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := l.publisher(l.session(time.Hour))
	var batch []publish.Message
	for range 1500 {
		batch = append(batch, message("a"))
	}
	l.server.Fail(fake.Publish, status.Error(codes.ResourceExhausted, "injected"))
	for i, r := range publish.All(p, batch, limit) {
		if r.Outcome != publish.Refused {
			t.Fatalf("message %d is %d (%v), want Refused", i, r.Outcome, r.Err)
		}
	}
	if calls := l.server.Calls(fake.Publish); calls != 1 {
		t.Errorf("%d requests: the second one could have overtaken the first", calls)
	}
}

// TestARefusedOrderGoesOn: nothing has to be resumed.
func TestARefusedOrderGoesOn(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	p := l.publisher(l.session(time.Hour))
	l.server.Fail(fake.Publish, status.Error(codes.ResourceExhausted, "injected"))
	first, second := message("a"), message("a")
	l.want(p, first, publish.Refused)
	l.server.Fail(fake.Publish, nil)
	l.want(p, first, publish.Confirmed)
	l.want(p, second, publish.Confirmed)
	if got := l.stored(); !slices.Equal(got, []string{first.ID, second.ID}) {
		t.Errorf("stored are %v, want %s and %s", got, first.ID, second.ID)
	}
}

// TestNoRequestStartsAfterTheEndOfItsContext: what was sent still gets its answer.
func TestNoRequestStartsAfterTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var started atomic.Int64
	counted := func(ctx context.Context, method string, request, reply any,
		conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		if _, ok := request.(*pubsubpb.PublishRequest); ok {
			started.Add(1)
		}
		return invoke(ctx, method, request, reply, conn, options...)
	}
	s := l.session(time.Hour, grpc.WithUnaryInterceptor(counted))
	p := l.publisher(s)
	var batch []publish.Message
	for i := range 500 {
		batch = append(batch, message(fmt.Sprint("group-", i)))
	}
	l.proxy.Stall()
	ctx, cancel := context.WithCancel(t.Context())
	answers := make(chan publish.Result, len(batch))
	p.Publish(ctx, batch, func(_ int, r publish.Result) { answers <- r })
	l.await("100 requests are in flight", func() bool { return started.Load() == 100 })
	cancel()
	for range 400 {
		if r := <-answers; r.Outcome != publish.NotSent || !errors.Is(r.Err, publish.ErrNotSent) {
			t.Fatalf("%d (%v), want NotSent", r.Outcome, r.Err)
		}
	}
	l.proxy.Resume()
	for range 100 {
		if r := <-answers; r.Outcome != publish.Confirmed {
			t.Fatalf("%d (%v), want Confirmed", r.Outcome, r.Err)
		}
	}
	if n := started.Load(); n != 100 {
		t.Errorf("%d requests were sent", n)
	}
}
