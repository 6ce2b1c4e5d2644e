package cli

import (
	"fmt"
	"io"
	"strings"
)

// BatchSize is how many things a command handles in one batch. Shorter work reports no progress.
const BatchSize = 500

// Progress reports how far long work is: at most one line for each percent.
type Progress struct {
	To      io.Writer
	Noun    Noun
	Total   int
	percent int
}

// At reports the number of things that are done.
func (p *Progress) At(done int) {
	if p.Total <= BatchSize || done*100/p.Total <= p.percent {
		return
	}
	p.percent = done * 100 / p.Total
	_, _ = fmt.Fprintf(p.To, "%d of %s (%d%%)\n", done, p.Noun.Count(p.Total), p.percent)
}

// Tally counts what a command changed, and what it could not change.
type Tally struct {
	Printer
	Noun    Noun
	Past    string // "replayed"
	DryRun  bool
	Done    int
	Refused []string // what was chosen but not changed, with the reason
}

// Sum prints how many things were changed. It returns an error that lists what was refused.
func (t *Tally) Sum() error {
	if t.DryRun {
		t.Printf("%s would be %s. Nothing was changed.", t.Noun.Count(t.Done), t.Past)
	} else {
		t.Printf("%s %s.", t.Noun.Count(t.Done), t.Past)
	}
	if len(t.Refused) > 0 {
		return fmt.Errorf("%s could not be %s:\n  %s", t.Noun.Count(len(t.Refused)), t.Past, strings.Join(t.Refused, "\n  "))
	}
	return nil
}
