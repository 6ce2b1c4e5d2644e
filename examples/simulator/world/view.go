package world

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// View is what the page shows.
type View struct {
	Clock    string     `json:"clock"`
	Queue    []Row      `json:"queue"`
	Claims   []Row      `json:"claims"`
	Topics   []Row      `json:"topics"`
	Done     []Row      `json:"published"`
	Relays   []Row      `json:"relays"`
	Broker   []Row      `json:"broker"`
	Dead     []Row      `json:"dead"`
	Consumer []Row      `json:"consumer"`
	Inbox    []Row      `json:"inbox"`
	Effects  []Row      `json:"effects"`
	Promises []Row      `json:"promises"`
	Actions  []Action   `json:"actions"`
	Log      []string   `json:"log"`
	Did      int        `json:"did"` // how many things the reader did; the log has the last of them
	Lessons  []string   `json:"lessons"`
	Lesson   LessonView `json:"lesson"`
}

// Row is a row of a table, or another thing with a state.
type Row struct {
	Name string `json:"name"`
	Text string `json:"text"`
	Bad  bool   `json:"bad"`
}

// View returns the whole state.
func (w *World) View() View {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := View{
		Clock: w.outbox.Now().Format(time.TimeOnly), Promises: w.promises(), Actions: w.actions(),
		Log: slices.Clone(w.log), Did: w.did,
	}
	for _, l := range Lessons {
		v.Lessons = append(v.Lessons, l.Title)
	}
	v.Lesson = w.progress.view(v.Actions)
	w.viewOutbox(&v)
	for _, p := range w.relays {
		v.Relays = append(v.Relays, Row{p.name, w.describe(p, &p.worker), p.dead})
		if p.prober.call != nil {
			v.Relays = append(v.Relays, Row{p.prober.name, w.describe(p, &p.prober), false})
		}
	}
	for _, m := range w.broker.queue {
		v.Broker = append(v.Broker, w.row(m.id, redelivered(m)))
	}
	for _, id := range w.broker.dead {
		v.Dead = append(v.Dead, w.row(id, "a copy; the event is in the outbox"))
	}
	if c := w.consumer; c.step != idle {
		v.Consumer = append(v.Consumer, w.row(c.message.id, map[consumerStep]string{
			delivered: "received, nothing is written yet", recorded: "processed, not acknowledged yet",
		}[c.step]))
	}
	for _, id := range w.consumer.inbox {
		v.Inbox = append(v.Inbox, w.row(id, ""))
	}
	for _, e := range w.consumer.effects {
		text := "its e-mail can be sent"
		if e.overtaken {
			text = "overtaken by a newer one: no e-mail"
		}
		v.Effects = append(v.Effects, w.row(e.id, text))
	}
	return v
}

func (w *World) row(id uuid.UUID, text string) Row { return Row{Name: w.events[id].name, Text: text} }

func redelivered(m message) string {
	if m.redelivered {
		return "redelivered"
	}
	return ""
}

func (w *World) viewOutbox(v *View) {
	for _, q := range w.outbox.Queue() {
		text := "due"
		switch {
		case q.Failed:
			text = "failed: waits for an operator"
		case q.Halted:
			text = "halted until the pause of its topic ends"
		case q.Parked:
			text = "parked until the older event of its order is finished"
		case q.Due.After(w.outbox.Now()):
			text = "due in " + q.Due.Sub(w.outbox.Now()).Round(time.Millisecond).String()
		}
		if q.Code != "" {
			text += fmt.Sprintf(" (%s, retry_count %d)", q.Code, q.Attempts)
		}
		v.Queue = append(v.Queue, Row{w.events[q.ID].name, text, q.Failed})
	}
	for _, t := range w.outbox.Topics() {
		text := "resumed: its events become due"
		switch {
		case !t.Resumed && t.Operator != "":
			text = "paused until an operator resumes it"
		case !t.Resumed:
			text = fmt.Sprintf("paused until %s: %s", t.Until.Format(time.TimeOnly), t.Reason)
		}
		v.Topics = append(v.Topics, Row{topicName(t.Name), text, !t.Resumed})
	}
	for _, c := range w.outbox.Claims() {
		text := fmt.Sprintf("%s until %s", c.Worker, c.Until.Format(time.TimeOnly))
		ended := !c.Until.After(w.outbox.Now())
		if ended {
			text += ": its lease has ended"
		}
		name := w.names(c.Events)
		if name == "" {
			name = "no event"
		}
		v.Claims = append(v.Claims, Row{name, text, ended})
	}
	for _, id := range w.outbox.Published() {
		v.Done = append(v.Done, w.row(id, ""))
	}
}

// describe says what a worker of a relay waits for.
func (w *World) describe(p *process, l *line) string {
	switch c := l.call; {
	case p.dead:
		return "dead"
	case c == nil:
		return "pauses, and goes on by itself in a few seconds"
	case c.step == claiming:
		return "asks PostgreSQL for events"
	case c.step == trying:
		return "asks PostgreSQL for an event of each topic whose pause is over"
	case c.step == sending:
		return "sends " + w.names(c.events) + " to the broker"
	case c.step == confirming:
		return "waits for the answers for " + w.names(c.events) + " (" + c.detail + ")"
	default:
		return "wants to write: " + c.detail
	}
}
