package checker

import (
	"encoding/json"
	"net/http"
	"reflect"
)

// judgeOrders holds the clients' ledger against the orders, and the orders against
// their events: both are committed together, or neither is (P1).
func (c *judgement) judgeOrders() {
	byEmail := map[string]Order{}
	for _, o := range c.Orders {
		if _, twice := byEmail[o.Email]; twice {
			c.surprises("P1", o.ID, "order %s: one request made two orders", o.ID)
		}
		byEmail[o.Email] = o
	}
	attempted, sent := map[string]bool{}, map[string]bool{} // some requests are repeated
	for _, a := range c.Attempts {
		attempted[a.Email] = true
		sent[a.Email+string(a.Kind)] = sent[a.Email+string(a.Kind)] || a.Outcome != NotSent
	}
	for _, a := range c.Attempts {
		c.judgeAttempt(a, byEmail, sent[a.Email+string(a.Kind)])
	}
	versions := c.versions()
	for _, o := range c.Orders {
		if !attempted[o.Email] {
			c.surprises("P1", o.ID, "order %s: nobody asked for it", o.ID)
		}
		for v := 1; v <= o.Version; v++ {
			if versions[o.ID][v] == "" {
				c.loses("P1", o.ID, "order %s: no event of version %d", o.ID, v)
			}
		}
	}
	for _, e := range c.Events {
		if o, known := c.orders[e.OrderID]; !known || e.Version > o.Version {
			c.surprises("P1", e.ID, "event %s: no order of version %d", e.ID, e.Version)
		}
	}
}

// versions are the ids of each order's events.
func (c *judgement) versions() map[string]map[int]string {
	all := map[string]map[int]string{}
	for _, e := range c.Events {
		if all[e.OrderID] == nil {
			all[e.OrderID] = map[int]string{}
		}
		all[e.OrderID][e.Version] = e.ID
	}
	return all
}

func (c *judgement) judgeAttempt(a Attempt, byEmail map[string]Order, sent bool) {
	o, exists := byEmail[a.Email]
	happened := exists && (a.Kind == Place || o.Version > 1)
	c.report.Attempted++
	switch a.Outcome {
	case Acknowledged:
		c.report.Acknowledged++
		if !happened || o.ID != a.OrderID {
			c.loses("P1", a.Email+string(a.Kind), "%s of order %s was acknowledged and is not there", a.Kind, a.OrderID)
		}
	case NotSent:
		if happened && !sent {
			c.surprises("P1", o.ID, "order %s: %s was never sent", o.ID, a.Kind)
		}
	case Unknown:
		if happened {
			c.report.Recovered++
		}
	}
	if a.Status != 0 && a.Status/100 != 2 && a.Status != http.StatusServiceUnavailable {
		c.breaks("API", "%s of a good order was answered with %s", a.Kind, a.Reason)
	}
	if a.Accused && a.Outcome != Acknowledged {
		c.breaks("P10", "%s was not taken, with only the broker in trouble: %s", a.Kind, a.Reason)
	}
}

// judgeContents wants nothing to go out that no transaction has committed (P2).
func (c *judgement) judgeContents() {
	for _, m := range c.Tap {
		e, known := c.events[m.ID]
		switch {
		case known && (m.Key != e.Key || !sameJSON(m.Body, []byte(e.Payload))):
			c.surprises("P2", m.ID, "event %s went out as %s %s", m.ID, m.Key, m.Body)
		case !known && !c.planted(m.ID):
			c.surprises("P2", m.ID, "message %s is no event of the outbox", m.ID)
		}
	}
	for _, n := range c.Notifications {
		if e, known := c.events[n.ID]; !known || e.OrderID != n.OrderID || e.Version != n.Version {
			c.surprises("P2", n.ID, "notification %s is of no event", n.ID)
		}
	}
}

func (c *judgement) planted(id string) bool {
	_, planted := c.allowed.Planted[id]
	return planted
}

func sameJSON(a, b []byte) bool {
	var first, second any
	return json.Unmarshal(a, &first) == nil && json.Unmarshal(b, &second) == nil && reflect.DeepEqual(first, second)
}
