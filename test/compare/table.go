package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

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
		var runs []result
		for _, r := range results {
			if r.Design == design && r.Fault == fault {
				runs = append(runs, r)
			}
		}
		all = append(all, cell(runs))
	}
	return all
}

// cell shows the worst figures of all runs of a row, and the median of the time until all was
// finished.
func cell(runs []result) string {
	if len(runs) == 0 {
		return "not measured"
	}
	var worst figures
	var times []float64
	for _, r := range runs {
		worst = worst.max(r.figures)
		if r.Recovery != nil {
			times = append(times, *r.Recovery)
		}
	}
	if worst.Stuck > 0 || len(times) == 0 {
		return "**" + worst.String() + "**"
	}
	slices.Sort(times)
	text := worst.String()
	if text != "safe" {
		text = "**" + text + "**"
	}
	return fmt.Sprintf("%s, %.0f s", text, times[len(times)/2])
}

func (f figures) max(g figures) figures {
	return figures{
		max(f.Lost, g.Lost), max(f.Phantom, g.Phantom), max(f.Repeated, g.Repeated),
		max(f.OutOfOrder, g.OutOfOrder), max(f.Stuck, g.Stuck), max(f.Buried, g.Buried),
	}
}
