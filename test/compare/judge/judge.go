// Package judge decides what a design has lost, repeated or mixed up.
//
// It is the same for all designs, and knows none of them. Its input is [Evidence]: the answers
// that the clients got, the orders in the database, the messages of a tap on the exchange, the
// effects, and the e-mails that arrived. The outbox of a design is only read for events without an
// effect: to know which of them still wait, and which are gone. [Judge] is a pure function.
package judge

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
)

// Event is a version of an order.
type Event struct {
	Order   string
	Version int
}

// Evidence is everything that is known after a run.
type Evidence struct {
	Acknowledged []Event // by an answer to a client
	Stored       []Event // the versions of the orders in the database
	Tap          []Event // every message that passed the exchange
	Effects      []Event // rows, in the order in which they were written
	Mails        []Event // in the order in which they arrived
	Mailed       bool    // the design sends an e-mail for each event, so a missing one is missing
	Superseded   []Event // that need no e-mail, because a newer event was there first

	Waiting     []Event // in the outbox or in a queue, and not finished
	DeadLetters []Event // in a dead-letter queue, or failed for good in the outbox
	Stalled     []Event // that waited as long as one of two replicas was stalled
	Poison      int     // poison messages that are still delivered again and again

	// OtherService has the messages that another service got, if the run checks them.
	OtherService []Event
}

// Figures are the result.
type Figures struct {
	Lost       int // events without an effect that are in no outbox and in no queue
	Phantom    int // events that others have received, of an order that is not stored
	Repeated   int // effects and e-mails after the first one of an event
	OutOfOrder int // effects or e-mails of which the first came after that of a newer event
	Stuck      int // events without an effect that wait, and nothing moves
	Buried     int // good messages that are dead letters
}

// Names are the figures' names in the table, in the order of the fields. Safe is the name of none.
var Names = []string{"lost", "phantom", "repeated", "out of order", "stuck", "buried"}

// Safe stands for figures that are all zero.
const Safe = "safe"

// String returns the figures that are not zero.
func (f Figures) String() string {
	var all []string
	for i, value := range []int{f.Lost, f.Phantom, f.Repeated, f.OutOfOrder, f.Stuck, f.Buried} {
		if value > 0 {
			all = append(all, fmt.Sprint(Names[i], " ", value))
		}
	}
	return cmp.Or(strings.Join(all, ", "), Safe)
}

// Max returns the worse one of each figure.
func (f Figures) Max(g Figures) Figures {
	return Figures{
		max(f.Lost, g.Lost), max(f.Phantom, g.Phantom), max(f.Repeated, g.Repeated),
		max(f.OutOfOrder, g.OutOfOrder), max(f.Stuck, g.Stuck), max(f.Buried, g.Buried),
	}
}

// Judge computes the figures.
func Judge(e Evidence) (f Figures) {
	stored, waiting, dead := set(e.Stored), set(e.Waiting), set(e.DeadLetters)
	for event := range missing(e) {
		switch {
		case dead[event]:
			f.Buried++
		case waiting[event]:
			f.Stuck++
		default:
			f.Lost++
		}
	}
	f.Stuck = max(f.Stuck, len(set(e.Stalled))) + e.Poison
	for event := range set(e.Tap, e.Effects, e.Mails) {
		if !stored[event] {
			f.Phantom++
		}
	}
	f.Repeated = repeats(e.Effects) + repeats(e.Mails) + repeats(e.OtherService)
	f.OutOfOrder = max(inversions(e.Effects), inversions(e.Mails))
	return f
}

// Missing returns how many events have had no effect yet.
func Missing(e Evidence) int { return len(missing(e)) }

// missing returns the events without an effect, or without their e-mail. An event counts if a
// client was told of it, or if it is stored.
func missing(e Evidence) map[Event]bool {
	all := set(e.Acknowledged, e.Stored)
	done := set(e.Effects)
	if e.Mailed {
		mailed := set(e.Mails, e.Superseded)
		maps.DeleteFunc(done, func(event Event, _ bool) bool { return !mailed[event] })
	}
	maps.DeleteFunc(all, func(event Event, _ bool) bool { return done[event] })
	return all
}

func set(lists ...[]Event) map[Event]bool {
	all := map[Event]bool{}
	for _, list := range lists {
		for _, event := range list {
			all[event] = true
		}
	}
	return all
}

func repeats(list []Event) int { return len(list) - len(set(list)) }

// inversions counts the events whose first appearance comes after a newer one of the same order.
func inversions(list []Event) (n int) {
	newest, seen := map[string]int{}, map[Event]bool{}
	for _, event := range list {
		if !seen[event] && event.Version < newest[event.Order] {
			n++
		}
		seen[event] = true
		newest[event.Order] = max(newest[event.Order], event.Version)
	}
	return n
}
