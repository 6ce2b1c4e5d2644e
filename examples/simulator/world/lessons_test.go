package world

import (
	"testing"
	"testing/synctest"
)

// TestLessonsEndAsTheySay takes the steps of each lesson, and looks at what its end says.
func TestLessonsEndAsTheySay(t *testing.T) {
	t.Parallel()
	effectOnce := func(v View) bool { return len(v.Effects) == 1 && len(v.Queue)+len(v.Broker)+len(v.Consumer) == 0 }
	ends := map[string]func(View) bool{
		"The way of an event":          func(v View) bool { return effectOnce(v) && len(v.Done) == 1 },
		"A relay dies before it marks": func(v View) bool { return effectOnce(v) && len(v.Inbox) == 1 },
		"The same without the inbox":   func(v View) bool { return v.Promises[1].Bad && len(v.Effects) == 2 },
		"A relay stalls for longer than its lease": func(v View) bool {
			return len(v.Claims) == 1 && v.Claims[0].Text == "relay 2 until 12:02:00" && v.Queue[0].Text == "due"
		},
		"No event overtakes an older one of its order": func(v View) bool {
			return len(v.Broker) == 3 && v.Broker[0].Name == "B1" && v.Broker[1].Name == "A1" && v.Broker[2].Name == "A2"
		},
		"The consumer dies before it acknowledges": effectOnce,
		"A topic pauses, and one event tries it": func(v View) bool {
			return len(v.Done) == 2 && len(v.Broker) == 2 && v.Broker[0].Name == "A1" && len(v.Queue) == 0
		},
	}
	if len(ends) != len(Lessons) {
		t.Errorf("%d lessons, %d ends", len(Lessons), len(ends))
	}
	for _, l := range Lessons {
		t.Run(l.Title, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := New(func() {})
				defer w.end()
				w.doAll(t, l.Steps...)
				if v := w.View(); !ends[l.Title](v) {
					t.Errorf("the end is %+v", v)
				}
			})
		})
	}
}
