package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// report tells what is done, what can be seen, and what was found in the end.
type report struct {
	out    io.Writer
	steps  int
	broken []string
}

func (r *report) say(format string, args ...any) { fmt.Fprintf(r.out, format+"\n", args...) }

// step begins the next thing that is done.
func (r *report) step(format string, args ...any) {
	r.steps++
	r.say("%d. "+format, append([]any{r.steps}, args...)...)
}

// see shows what can be seen from outside.
func (r *report) see(format string, args ...any) { r.say("     "+format, args...) }

// want compares a number with the one that keeps the promise.
func (r *report) want(what string, got, want int) { r.judge(what, got, want, got == want) }

// wantAtLeast is for numbers to which others may add.
func (r *report) wantAtLeast(what string, got, want int) { r.judge(what, got, want, got >= want) }

func (r *report) judge(what string, got, want int, ok bool) {
	if ok {
		r.see("%-42s %d", what, got)
		return
	}
	finding := fmt.Sprintf("%s: %d, want %d", what, got, want)
	r.broken = append(r.broken, finding)
	r.see("BROKEN  %s", finding)
}

// wantTrue is for what is no number.
func (r *report) wantTrue(what string, ok bool) {
	if ok {
		r.see("%-42s yes", what)
		return
	}
	r.broken = append(r.broken, what+": no")
	r.see("BROKEN  %s: no", what)
}

// verdict is an error if anything was not as wanted.
func (r *report) verdict() error {
	if len(r.broken) == 0 {
		return nil
	}
	return errors.New("\nbroken: " + strings.Join(r.broken, "; "))
}
