package checker_test

import (
	"time"

	"example.com/transactional-outbox/chaos/checker"
)

// anHourOff are the times that a replica would write whose clock is wrong.
var anHourOff = map[string]time.Time{"behind": ended.Add(-time.Hour), "ahead": began.Add(time.Hour)}

var ofClocks = append(wrongTimes(), defect{
	name:     "an event was claimed under somebody's lease",
	do:       func(e *checker.Evidence) { e.Reclaims = append(e.Reclaims, lease-time.Millisecond) },
	allowed:  checker.Allowance{Lease: lease},
	promises: "P11",
}, defect{
	name: "a message failed at no time",
	do: func(e *checker.Evidence) {
		e.Tap[0].Headers = map[string]any{"failed-at": "yesterday"}
	},
	promises: "P9",
})

func wrongTimes() (all []defect) {
	for how, at := range anHourOff {
		for where, write := range map[string]func(*checker.Evidence){
			"a column":    func(e *checker.Evidence) { e.Times[1].At = at },
			"a timestamp": func(e *checker.Evidence) { e.Tap[2].At = at },
			"a date":      func(e *checker.Evidence) { e.Mails[3].Date = at },
			"failed-at":   func(e *checker.Evidence) { e.Tap[0].Headers = map[string]any{"failed-at": at.Format(time.RFC3339)} },
		} {
			all = append(all, defect{name: where + " is of a clock that is " + how, do: write, promises: "P11"})
		}
	}
	return all
}
