package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// report prints the steps and observations, and collects the findings.
type report struct {
	out    io.Writer
	steps  int
	broken []string
}

func (r *report) printf(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

// step prints the next numbered step.
func (r *report) step(format string, args ...any) {
	r.steps++
	r.printf("%d. "+format, append([]any{r.steps}, args...)...)
}

// observe prints an observation.
func (r *report) observe(format string, args ...any) { r.printf("     "+format, args...) }

// requireEqual requires an exact number.
func (r *report) requireEqual(what string, got, want int) { r.record(what, got, want, got == want) }

// requireAtLeast requires a minimum, for counters that others may increase.
func (r *report) requireAtLeast(what string, got, want int) { r.record(what, got, want, got >= want) }

func (r *report) record(what string, got, want int, ok bool) {
	if ok {
		r.observe("%-42s %d", what, got)
		return
	}
	finding := fmt.Sprintf("%s: %d, want %d", what, got, want)
	r.broken = append(r.broken, finding)
	r.observe("BROKEN  %s", finding)
}

// requireTrue requires a condition.
func (r *report) requireTrue(what string, ok bool) {
	if ok {
		r.observe("%-42s yes", what)
		return
	}
	r.broken = append(r.broken, what+": no")
	r.observe("BROKEN  %s: no", what)
}

// verdict returns the findings as an error.
func (r *report) verdict() error {
	if len(r.broken) == 0 {
		return nil
	}
	return errors.New("\nbroken: " + strings.Join(r.broken, "; "))
}
