package page_test

import (
	"net/http"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestAnOrderShowsSomeOfManyDeadLetters.
func TestAnOrderShowsSomeOfManyDeadLetters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const order = "0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57"
	for range 101 {
		f.Add("malformed", 0, func(p *amqp.Publishing) { p.Body = []byte(`{"order_id": "` + order + `"}`) })
	}
	a := f.get("/orders/"+order).Want(http.StatusOK, "more than 100 dead letters")
	if n := strings.Count(a.Body, "became a dead letter"); n != 100 {
		t.Errorf("%d are shown", n)
	}
}

// TestAShortenedReasonHasNoPartOfAnAddress: what is left of an address after the cut is not
// recognised.
func TestAShortenedReasonHasNoPartOfAnAddress(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Add("mail-rejected", 0, func(p *amqp.Publishing) {
		p.Headers["failure-reason"] = strings.Repeat("x", 150) + " jane.smith@example.com is unknown"
	})
	f.getAs("rob", "/dead").Want(http.StatusOK, "mail-rejected", "xxx").WantNot("jane")
}
