package world

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Action is something that the reader can do now.
type Action struct {
	ID    string `json:"id"`
	Place string `json:"place"` // where the page shows it
	Label string `json:"label"`
	Fault bool   `json:"fault"` // it breaks something; the others let the system work
	do    func()
}

// what says what the reader does, for the log.
func (a Action) what() string { return a.Place + ": " + a.Label }

// Do does an action, waits until each relay waits for the reader again, and reports whether the
// action was possible.
func (w *World) Do(id string) bool {
	if !w.do(id) {
		return false
	}
	w.settle()
	return true
}

func (w *World) do(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if id == Next {
		id = w.progress.next()
	}
	all := w.actions()
	i := slices.IndexFunc(all, func(a Action) bool { return a.ID == id })
	if i < 0 {
		return false
	}
	w.log, w.did = append(w.log, all[i].what()), w.did+1
	w.log = w.log[max(0, len(w.log)-maxLog):]
	w.progress = w.progress.after(id)
	all[i].do()
	return true
}

func (w *World) actions() (all []Action) {
	all = append(all, w.clientActions()...)
	for i := range w.relays {
		all = append(all, w.relayActions(i)...)
	}
	all = append(all, w.brokerActions()...)
	all = append(all, w.consumerActions()...)
	for _, d := range []time.Duration{time.Second, 15 * time.Second, config.Lease} {
		label := strings.TrimSuffix(d.String(), "0s") + " later"
		all = append(all, Action{"clock/" + d.String(), "clock", label, false, func() { w.outbox.Advance(d) }})
	}
	return all
}

func (w *World) clientActions() (all []Action) {
	for i, o := range w.orders {
		if o.versions < len(topics) {
			label := fmt.Sprintf("change order %s (%s)", o.name, topics[o.versions])
			all = append(all, Action{"client/" + o.name, "clients", label, false, func() { w.place(i) }})
		}
	}
	if len(w.orders) < maxOrders {
		all = append(all, Action{"client/new", "clients", "place an order", false, func() { w.place(len(w.orders)) }})
	}
	for _, q := range w.outbox.Queue() {
		if q.Failed {
			label := fmt.Sprintf("an operator replays %s", w.events[q.ID].name)
			all = append(all, Action{"replay/" + w.events[q.ID].name, "clients", label, false, func() { w.outbox.Replay(q.ID) }})
		}
	}
	return append(all, w.topicActions()...)
}

// topicActions are what operators do about topics. They pause all of them only, and resume any.
func (w *World) topicActions() (all []Action) {
	canPause := true
	for _, t := range w.outbox.Topics() {
		if t.Resumed {
			continue
		}
		canPause = canPause && t.Name != store.AllTopics
		all = append(all, Action{
			"resume/" + t.Name, "clients", "an operator resumes " + topicName(t.Name), false, func() { w.outbox.Resume(t.Name) },
		})
	}
	if canPause {
		all = append(all, Action{
			"pause/" + store.AllTopics, "clients", "an operator pauses every topic", true, func() { w.outbox.Pause(store.AllTopics, "ann") },
		})
	}
	return all
}

func topicName(name string) string {
	if name == store.AllTopics {
		return "every topic"
	}
	return name
}

// labels say what happens if the reader lets a relay's call happen.
var labels = map[step]string{
	claiming: "claim what is due", trying: "claim an event of each topic whose pause is over",
	sending: "the broker receives", confirming: "the answers arrive", settling: "settle",
}

func (w *World) relayActions(i int) (all []Action) {
	p := w.relays[i]
	if p.dead {
		return []Action{{p.name + "/start", p.name, "start it again", false, func() { w.relays[i] = w.start(p.name) }}}
	}
	for _, l := range p.lines() {
		c := l.call
		if c == nil {
			continue
		}
		all = append(all, Action{l.name + "/go", l.name, labels[c.step], false, func() { l.let(c.do()) }})
		if c.step == sending || c.step == confirming {
			all = append(all, Action{l.name + "/lose", l.name, "the connection breaks", true, func() {
				l.lose()
				l.let(nil)
			}})
		}
	}
	return append(all, Action{p.name + "/kill", p.name, "SIGKILL", true, p.kill})
}

func (w *World) brokerActions() (all []Action) {
	label := "unbind the queue"
	if !w.broker.bound {
		label = "bind the queue again"
	}
	all = append(all, Action{"broker/bind", "broker", label, w.broker.bound, func() { w.broker.bound = !w.broker.bound }})
	for _, o := range w.orders {
		refused, label := w.broker.refuses[o.id], "refuse what is about order "+o.name
		if refused {
			label = "accept what is about order " + o.name
		}
		all = append(all, Action{"broker/refuse " + o.name, "broker", label, !refused, func() { w.broker.refuses[o.id] = !refused }})
	}
	if n := len(w.broker.queue); n > 0 && n < maxQueue {
		first := w.broker.queue[0]
		all = append(all, Action{"broker/duplicate", "broker", "deliver the first message twice", true, func() {
			w.broker.queue = slices.Insert(w.broker.queue, 0, first)
		}})
	}
	if len(w.broker.queue) > 1 {
		all = append(all, Action{"broker/delay", "broker", "delay the first message", true, func() {
			w.broker.queue = append(w.broker.queue[1:], w.broker.queue[0])
		}})
	}
	return all
}

func (w *World) consumerActions() (all []Action) {
	c := &w.consumer
	switch {
	case c.step == idle && len(w.broker.queue) > 0:
		all = append(all, Action{"consumer/go", "consumer", "receive a message", false, func() {
			c.message, c.step, w.broker.queue = w.broker.queue[0], delivered, w.broker.queue[1:]
		}})
	case c.step == delivered:
		all = append(all, Action{"consumer/go", "consumer", w.recording(), false, w.record})
	case c.step == recorded:
		all = append(all, Action{"consumer/go", "consumer", "acknowledge the message", false, func() { c.step, c.message = idle, message{} }})
	}
	if c.step != idle {
		all = append(all, Action{"consumer/kill", "consumer", "SIGKILL, and start it again", true, w.killConsumer})
	}
	label := "work without the inbox"
	if c.noInbox {
		label = "use the inbox again"
	}
	return append(all, Action{"consumer/inbox", "consumer", label, !c.noInbox, func() { c.noInbox = !c.noInbox }})
}

// names returns the names of events, such as "A1 B1".
func (w *World) names(ids []uuid.UUID) string {
	var all []string
	for _, id := range ids {
		all = append(all, w.events[id].name)
	}
	return strings.Join(all, " ")
}
