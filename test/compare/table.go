package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// result is the result of one run of one row, and one object in compare.json.
type result struct {
	Design   string `json:"design"`
	Fault    string `json:"fault"`
	Seed     uint64 `json:"seed"`
	Orders   int    `json:"orders"`   // requests that were answered with success
	Injected int    `json:"injected"` // how often the fault happened
	figures
	Recovery *float64 `json:"recovery_s"` // from the end of the fault; null: something is stuck
}

func (r result) String() string {
	recovery := "never finished"
	if r.Recovery != nil {
		recovery = fmt.Sprintf("finished after %.1f s", *r.Recovery)
	}
	return fmt.Sprintf("%d orders, %s, %s", r.Orders, r.figures, recovery)
}

// figures are judge.Figures with the names of compare.json.
type figures struct {
	Lost       int `json:"lost"`
	Phantom    int `json:"phantom"`
	Repeated   int `json:"repeated"`
	OutOfOrder int `json:"out_of_order"`
	Stuck      int `json:"stuck"`
	Buried     int `json:"buried"`
}

// names are the figures' names in the table, in the order of the fields.
var names = []string{"lost", "phantom", "repeated", "out of order", "stuck", "buried"}

// String returns the figures that are not zero.
func (f figures) String() string {
	var all []string
	for i, value := range []int{f.Lost, f.Phantom, f.Repeated, f.OutOfOrder, f.Stuck, f.Buried} {
		if value > 0 {
			all = append(all, fmt.Sprint(names[i], " ", value))
		}
	}
	return cmp.Or(strings.Join(all, ", "), "safe")
}

func (f figures) max(g figures) figures {
	return figures{
		max(f.Lost, g.Lost), max(f.Phantom, g.Phantom), max(f.Repeated, g.Repeated),
		max(f.OutOfOrder, g.OutOfOrder), max(f.Stuck, g.Stuck), max(f.Buried, g.Buried),
	}
}

// printTables prints one table for each side, in Markdown.
func printTables(w io.Writer, results []result) (err error) {
	for _, side := range []struct {
		of    side
		title string
	}{{orderSide, "the order side"}, {consumerSide, "the consumer side"}} {
		var columns []string
		for _, f := range faults {
			if f.touches&side.of != 0 {
				columns = append(columns, f.name)
			}
		}
		_, printed := fmt.Fprintf(w, "| %s | %s |\n|---|%s\n", side.title, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
		err = errors.Join(err, printed)
		for _, d := range designs {
			if d.side&side.of != 0 {
				_, printed := fmt.Fprintf(w, "| %s | %s |\n", d.name, strings.Join(cells(d.name, columns, results), " | "))
				err = errors.Join(err, printed)
			}
		}
		_, printed = fmt.Fprintln(w)
		err = errors.Join(err, printed)
	}
	return err
}

func cells(design string, faults []string, results []result) (all []string) {
	for _, fault := range faults {
		all = append(all, cell(runsOf(design, fault, results)))
	}
	return all
}

func runsOf(design, fault string, results []result) (runs []result) {
	for _, r := range results {
		if r.Design == design && r.Fault == fault {
			runs = append(runs, r)
		}
	}
	return runs
}

func worstOf(runs []result) (worst figures) {
	for _, r := range runs {
		worst = worst.max(r.figures)
	}
	return worst
}

// cell shows the worst figures of all runs of a row, and the median of the time until all was
// finished.
func cell(runs []result) string {
	if len(runs) == 0 {
		return "–"
	}
	var times []float64
	for _, r := range runs {
		if r.Recovery != nil {
			times = append(times, *r.Recovery)
		}
	}
	worst := worstOf(runs)
	text := worst.String()
	if text != "safe" {
		text = "**" + text + "**"
	}
	if worst.Stuck > 0 || len(times) == 0 {
		return text
	}
	slices.Sort(times)
	return fmt.Sprintf("%s, %.0f s", text, times[len(times)/2])
}
