package checker

import (
	"encoding/json"
	"net/http"
	"reflect"

	"example.com/transactional-outbox/test/env/load"
)

// checkOrders compares the clients' ledger with the orders, and the orders with their events. Both
// are committed together, or neither is (P1).
func (c *check) checkOrders() {
	byEmail := map[string]Order{}
	for _, o := range c.Orders {
		if _, twice := byEmail[o.Email]; twice {
			c.reportUnexpected("P1", o.ID, "order %s is the second order of one request", o.ID)
		}
		byEmail[o.Email] = o
	}
	// A client repeats a request without an answer. Each request is answered in the end (P10).
	attempted, sent, reasons := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, a := range c.Attempts {
		request := string(a.Kind) + " of " + a.Email
		attempted[a.Email] = true
		sent[request] = sent[request] || a.Outcome != load.NotSent
		if reasons[request] = a.Reason; a.Outcome == load.Acknowledged {
			delete(reasons, request)
		}
	}
	for _, a := range c.Attempts {
		c.checkAttempt(a, byEmail, sent[string(a.Kind)+" of "+a.Email])
	}
	for request, reason := range reasons {
		c.violation("P10", "%s was never answered: %s", request, reason)
	}
	versions := c.versions()
	for _, o := range c.Orders {
		if !attempted[o.Email] {
			c.reportUnexpected("P1", o.ID, "order %s: no client requested it", o.ID)
		}
		for v := 1; v <= o.Version; v++ {
			if versions[o.ID][v] == "" {
				c.reportLost("P1", o.ID, "order %s has no event of version %d", o.ID, v)
			}
		}
	}
	for _, e := range c.Events {
		if o, known := c.orders[e.OrderID]; !known || e.Version > o.Version {
			c.reportUnexpected("P1", e.ID, "event %s has no order of version %d", e.ID, e.Version)
		}
	}
}

// versions returns the event ids by order and version.
func (c *check) versions() map[string]map[int]string {
	all := map[string]map[int]string{}
	for _, e := range c.Events {
		if all[e.OrderID] == nil {
			all[e.OrderID] = map[int]string{}
		}
		all[e.OrderID][e.Version] = e.ID
	}
	return all
}

func (c *check) checkAttempt(a load.Attempt, byEmail map[string]Order, sent bool) {
	o, exists := byEmail[a.Email]
	happened := exists && (a.Kind == load.Place || o.Version > 1)
	c.report.Attempted++
	switch {
	case a.Outcome == load.Acknowledged:
		c.report.Acknowledged++
		if !happened || o.ID != a.OrderID {
			c.reportLost("P1", a.Email+string(a.Kind), "%s of order %s was acknowledged and is missing", a.Kind, a.OrderID)
		}
	case a.Outcome == load.NotSent && happened && !sent:
		c.reportUnexpected("P1", o.ID, "order %s: %s happened and was never sent", o.ID, a.Kind)
	case a.Status != 0 && a.Status/100 != 2 && a.Status != http.StatusServiceUnavailable:
		c.violation("API", "the answer to a valid %s was %s", a.Kind, a.Reason)
	}
}

// checkContents requires a committed event for every published message (P2).
func (c *check) checkContents() {
	for _, m := range c.Tap {
		e, known := c.events[m.ID]
		switch {
		case known && (m.Key != e.Key || !sameJSON(m.Body, []byte(e.Payload))):
			c.reportUnexpected("P2", m.ID, "event %s was published as %s %s", m.ID, m.Key, m.Body)
		case !known && !c.isMalformed(m.ID):
			c.reportUnexpected("P2", m.ID, "message %s is not an event of the outbox", m.ID)
		}
	}
	for _, m := range c.Emails {
		if e, known := c.events[m.ID]; !known || e.OrderID != m.OrderID || e.Version != m.Version {
			c.reportUnexpected("P2", m.ID, "e-mail %s belongs to no event", m.ID)
		}
	}
}

func (c *check) isMalformed(id string) bool {
	_, malformed := c.allowed.Malformed[id]
	return malformed
}

func sameJSON(a, b []byte) bool {
	var first, second any
	return json.Unmarshal(a, &first) == nil && json.Unmarshal(b, &second) == nil && reflect.DeepEqual(first, second)
}
