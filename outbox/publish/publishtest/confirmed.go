package publishtest

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"example.com/transactional-outbox/outbox/publish"
)

// arriveAsTheyWere compares what a consumer gets with what was sent. It does not compare the group,
// because a broker need not deliver it. See [publish] for the other differences that it allows.
func (c contract) arriveAsTheyWere() {
	m := c.message("group-1")
	m.Timestamp = time.Date(2026, 5, 4, 3, 2, 1, 987654321, time.UTC)
	m.Headers = map[string]any{"traceparent": "00-1-2-01", "text": "grün, ≥ 1", "number": int64(3)}
	m.Body = []byte("{\"name\": \"Zoë\",\n \"bytes\": \"\x00\xff\"}")
	other := c.message("group-2")
	other.Topic, other.Headers, other.Body = "order.cancelled", nil, []byte("{}")
	c.confirm(c.publisher(), m, other)

	got := byID(c.stored(m, other))
	c.compare(m, got[m.ID])
	c.compare(other, got[other.ID])
}

func (c contract) compare(want, got publish.Message) {
	c.Helper()
	if got.Topic != want.Topic || got.ContentType != want.ContentType || got.AppID != want.AppID ||
		got.Timestamp.Unix() != want.Timestamp.Unix() || !bytes.Equal(got.Body, want.Body) {
		c.Errorf("sent %+v, got %+v", want, got)
	}
	for name, value := range want.Headers {
		if fmt.Sprint(got.Headers[name]) != fmt.Sprint(value) {
			c.Errorf("sent the header %s: %v, got %v", name, value, got.Headers[name])
		}
	}
}

func (c contract) bigBatch() {
	batch := c.batch(window)
	c.confirm(c.publisher(), batch...)
	c.stored(batch...)
}

// repeatedBatch publishes a batch three times. The server may store the repeats or drop them.
func (c contract) repeatedBatch() {
	batch, p := c.batch(10), c.publisher()
	c.confirm(p, batch...)
	c.confirm(p, batch...)
	c.confirm(c.publisher(), batch...)
	c.stored(batch...)
}

// orderOfResults publishes two such batches: no answer to the first may count for the second.
func (c contract) orderOfResults() {
	p := c.publisher()
	for range 2 {
		var batch []publish.Message
		var want []publish.Outcome
		for reason, invalid := range c.Invalid {
			batch = append(batch, c.unheard(), c.message("group-1"), c.fill(invalid), c.message("group-2"))
			want = append(want, publish.Returned, publish.Confirmed, publish.Invalid, publish.Confirmed)
			if !errors.Is(reason, publish.ErrInvalid) {
				c.Errorf("%v is not one of the errors of an Invalid", reason)
			}
		}
		c.expect(c.publish(p, batch...), want)
	}
}
