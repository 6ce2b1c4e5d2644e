package operator

import (
	"fmt"
	"io"
	"strings"
)

// BatchSize is how many things are handled at a time where that is better than one by
// one, and how often progress is told.
const BatchSize = 500

// Progress tells how far long work is: a line for each percent at most.
type Progress struct {
	To      io.Writer
	Noun    Noun
	Total   int
	percent int
}

// At says that so many are done.
func (p *Progress) At(done int) {
	if p.Total <= BatchSize || done*100/p.Total <= p.percent {
		return
	}
	p.percent = done * 100 / p.Total
	_, _ = fmt.Fprintf(p.To, "%d of %s (%d%%)\n", done, p.Noun.Count(p.Total), p.percent)
}

// Tally is what became of the things that a command was to change.
type Tally struct {
	Printer
	Noun    Noun
	Past    string // "replayed"
	DryRun  bool
	Done    int
	Refused []string // what was chosen and not changed, and why
}

// Sum says what was done, and returns an error for what was refused.
func (t *Tally) Sum() error {
	if t.DryRun {
		t.Say("%s would be %s. Nothing was changed.", t.Noun.Count(t.Done), t.Past)
	} else {
		t.Say("%s %s.", t.Noun.Count(t.Done), t.Past)
	}
	if len(t.Refused) > 0 {
		return fmt.Errorf("%s could not be %s:\n  %s", t.Noun.Count(len(t.Refused)), t.Past, strings.Join(t.Refused, "\n  "))
	}
	return nil
}
