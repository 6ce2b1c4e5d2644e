package judge_test

import (
	"slices"
	"testing"

	"example.com/transactional-outbox/test/compare/judge"
)

var a1, a2, b1 = judge.Event{Order: "a", Version: 1}, judge.Event{Order: "a", Version: 2}, judge.Event{Order: "b", Version: 1}

// good is the evidence of a run without any defect.
func good() judge.Evidence {
	all := []judge.Event{a1, b1, a2}
	return judge.Evidence{
		Acknowledged: slices.Clone(all), Stored: slices.Clone(all), Tap: slices.Clone(all),
		Effects: slices.Clone(all), Mails: slices.Clone(all), Mailed: true,
	}
}

// TestFigures changes one thing of a good run at a time.
func TestFigures(t *testing.T) {
	t.Parallel()
	withoutLast := func(list []judge.Event) []judge.Event { return list[:len(list)-1] }
	for name, test := range map[string]struct {
		change func(*judge.Evidence)
		want   judge.Figures
	}{
		"good":                             {func(*judge.Evidence) {}, judge.Figures{}},
		"acknowledged, no effect":          {func(e *judge.Evidence) { e.Effects = withoutLast(e.Effects) }, judge.Figures{Lost: 1}},
		"acknowledged, not stored":         {func(e *judge.Evidence) { *e = judge.Evidence{Acknowledged: e.Stored} }, judge.Figures{Lost: 3}},
		"stored, the client saw an error":  {func(e *judge.Evidence) { *e = judge.Evidence{Stored: e.Stored} }, judge.Figures{Lost: 3}},
		"no e-mail":                        {func(e *judge.Evidence) { e.Mails = e.Mails[1:] }, judge.Figures{Lost: 1}},
		"no e-mail, a newer one was first": {func(e *judge.Evidence) { e.Mails, e.Superseded = e.Mails[1:], e.Mails[:1] }, judge.Figures{}},
		"no e-mail, and none is sent":      {func(e *judge.Evidence) { e.Mails, e.Mailed = nil, false }, judge.Figures{}},
		"waits in a queue":                 {func(e *judge.Evidence) { e.Effects, e.Waiting = e.Effects[:1], []judge.Event{b1, a2} }, judge.Figures{Stuck: 2}},
		"one waits, one is gone":           {func(e *judge.Evidence) { e.Effects, e.Waiting = e.Effects[:1], []judge.Event{b1} }, judge.Figures{Stuck: 1, Lost: 1}},
		"in a queue again, after its effect": {func(e *judge.Evidence) {
			e.Waiting, e.DeadLetters = []judge.Event{a1}, []judge.Event{b1}
		}, judge.Figures{}},
		"a dead letter":                   {func(e *judge.Evidence) { e.Effects, e.DeadLetters = e.Effects[:2], []judge.Event{a2} }, judge.Figures{Buried: 1}},
		"waited for a stalled replica":    {func(e *judge.Evidence) { e.Stalled = []judge.Event{a1, a2} }, judge.Figures{Stuck: 2}},
		"poison comes again and again":    {func(e *judge.Evidence) { e.Poison = 1 }, judge.Figures{Stuck: 1}},
		"a message without an order":      {func(e *judge.Evidence) { e.Tap = append(e.Tap, judge.Event{Order: "c", Version: 1}) }, judge.Figures{Phantom: 1}},
		"an effect of a lost version":     {func(e *judge.Evidence) { e.Effects = append(e.Effects, judge.Event{Order: "b", Version: 2}) }, judge.Figures{Phantom: 1}},
		"a repeated message":              {func(e *judge.Evidence) { e.Tap = append(e.Tap, a1) }, judge.Figures{}},
		"a repeated effect":               {func(e *judge.Evidence) { e.Effects = append(e.Effects, a2) }, judge.Figures{Repeated: 1}},
		"a repeated e-mail":               {func(e *judge.Evidence) { e.Mails = append(e.Mails, a2, a2) }, judge.Figures{Repeated: 2}},
		"another service got it twice":    {func(e *judge.Evidence) { e.OtherService = []judge.Event{a1, b1, a1} }, judge.Figures{Repeated: 1}},
		"an older effect after a newer":   {func(e *judge.Evidence) { slices.Reverse(e.Effects) }, judge.Figures{OutOfOrder: 1}},
		"an older e-mail after a newer":   {func(e *judge.Evidence) { slices.Reverse(e.Mails) }, judge.Figures{OutOfOrder: 1}},
		"a repeat of the older one after": {func(e *judge.Evidence) { e.Effects = append(e.Effects, a1) }, judge.Figures{Repeated: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := good()
			test.change(&e)
			if got := judge.Judge(e); got != test.want {
				t.Errorf("figures are %+v, want %+v", got, test.want)
			}
		})
	}
}
