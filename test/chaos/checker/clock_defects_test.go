package checker_test

import (
	"time"

	"example.com/transactional-outbox/test/chaos/checker"
)

// anHourOff are times of a clock that is an hour wrong.
var anHourOff = map[string]time.Time{"behind": ended.Add(-time.Hour), "ahead": began.Add(time.Hour)}

var clockDefects = append(wrongTimes(), defect{
	name:     "an event was claimed during another relay's lease",
	do:       func(e *checker.Evidence) { e.Reclaims = append(e.Reclaims, lease-time.Millisecond) },
	allowed:  checker.Allowance{Lease: lease},
	promises: "P11",
}, defect{
	name: "failed-at is not a time",
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
			all = append(all, defect{name: where + " is from a clock that is " + how, do: write, promises: "P11"})
		}
	}
	return all
}
