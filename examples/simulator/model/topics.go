package model

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Topic is a row of outbox_topics.
type Topic struct {
	Name     string
	Until    time.Time // zero is infinity
	Pause    time.Duration
	Reason   string
	Operator string
	Resumed  bool // the pause is over, and some of its events are still halted
}

// Topics returns the paused and the resumed topics, by name.
func (o *Outbox) Topics() (all []Topic) {
	for _, name := range slices.Sorted(maps.Keys(o.topics)) {
		all = append(all, *o.topics[name])
	}
	return all
}

func (o *Outbox) isPaused(topic string) bool {
	return o.topics[topic] != nil && !o.topics[topic].Resumed
}

// halted returns the halted events of a topic: first the one that was tried least, and of these the
// oldest.
func (o *Outbox) halted(topic string) (all []*Queued) {
	for _, q := range o.queue {
		if q.Topic == topic && q.Halted {
			all = append(all, q)
		}
	}
	slices.SortFunc(all, func(a, b *Queued) int {
		return cmp.Or(cmp.Compare(a.Attempts, b.Attempts), cmp.Compare(a.Seq, b.Seq))
	})
	return all
}

// unclaimed leaves out the events that a claim holds.
func (o *Outbox) unclaimed(events []*Queued) []*Queued {
	return slices.DeleteFunc(events, func(q *Queued) bool { return o.claimed(q.ID) })
}

// forgetTopics deletes the rows of resumed topics that have no halted event any more.
func (o *Outbox) forgetTopics() {
	maps.DeleteFunc(o.topics, func(name string, t *Topic) bool { return t.Resumed && len(o.halted(name)) == 0 })
}

// toBringBack returns the halted events of resumed topics that become due: as many as a claim has
// room for, and a tenth at least.
func (o *Outbox) toBringBack(limit, going int) (back []*Queued) {
	resumed := slices.DeleteFunc(o.Topics(), func(t Topic) bool { return !t.Resumed })
	for _, t := range resumed {
		waiting := o.unclaimed(o.halted(t.Name))
		back = append(back, waiting[:min(len(waiting), max(limit-going, limit/10)/len(resumed)+1)]...)
	}
	return back
}

// nextProbe returns in how many seconds a topic is to be tried.
func (o *Outbox) nextProbe() (next *float64) {
	for _, t := range o.topics {
		seconds := t.Until.Sub(o.now).Seconds()
		if !t.Resumed && !t.Until.IsZero() && !o.isPaused(store.AllTopics) && (next == nil || seconds < *next) {
			next = &seconds
		}
	}
	return next
}

// ClaimProbes is store.Store.ClaimProbes.
func (o *Outbox) ClaimProbes(token uuid.UUID, worker string, lease time.Duration) store.Claim {
	claim := &Claim{Token: token, Worker: worker, Until: o.now.Add(lease)}
	for _, t := range o.topics {
		if t.Resumed || t.Until.IsZero() || t.Until.After(o.now) || o.isPaused(store.AllTopics) {
			continue
		}
		t.Resumed = len(o.halted(t.Name)) == 0
		probes := o.probes(t.Name)
		claim.Events = append(claim.Events, probes...)
		t.Until = o.now.Add(time.Second)
		if len(probes) > 0 {
			t.Until = o.now.Add(t.Pause + 10*time.Second)
		}
	}
	return o.grant(claim, store.Claim{NextProbe: o.nextProbe()})
}

// probes returns the first halted event of a topic that is not overtaken, and those before it.
func (o *Outbox) probes(topic string) (ids []uuid.UUID) {
	for _, q := range o.unclaimed(o.halted(topic)) {
		ids = append(ids, q.ID)
		if !o.isOvertaken(q) {
			break
		}
	}
	return ids
}

// pause is what a settlement does: it begins a pause, or makes it longer if its probe has failed.
func (o *Outbox) pause(name, reason string, s store.Settlement) {
	t := o.topics[name]
	pause := s.FirstPause
	switch {
	case t == nil || t.Resumed:
	case t.Operator != "" || !s.Probe:
		return
	default:
		pause = min(2*t.Pause, s.LongestPause)
	}
	o.topics[name] = &Topic{Name: name, Until: o.now.Add(pause), Pause: pause, Reason: reason}
}

// resume ends the pause of a topic, unless an operator has paused it.
func (o *Outbox) resume(name string) {
	if t := o.topics[name]; t != nil && t.Operator == "" {
		t.Resumed = true
	}
}

// retry makes the refused events due that wait for their next attempt.
func (o *Outbox) retry(isMeant func(topic string) bool) {
	for _, q := range o.queue {
		if isMeant(q.Topic) && !q.RefusedSince.IsZero() && !q.infinite() && q.Due.After(o.now) {
			q.Due = o.now
		}
	}
}

// Pause and Resume are what package operate does for an operator.

// Pause pauses a topic until an operator resumes it.
func (o *Outbox) Pause(name, operator string) {
	o.topics[name] = &Topic{Name: name, Reason: "an operator paused it", Operator: operator}
}

// Resume ends the pause of a topic, whoever has paused it.
func (o *Outbox) Resume(name string) (resumed bool) {
	t := o.topics[name]
	if resumed = t != nil && !t.Resumed; resumed {
		t.Resumed = true
	}
	return resumed
}
