package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"example.com/transactional-outbox/test/compare/judge"
)

// result is the result of one run of one row.
type result struct {
	judge.Figures
	recovery float64 // seconds from the end of the fault; of no use if something is stuck
}

// results are the runs of each row, by its name.
type results map[string][]result

// printTables prints one table for each side, in Markdown.
func printTables(w io.Writer, all results) (err error) {
	print := func(format string, arguments ...any) {
		_, printed := fmt.Fprintf(w, format, arguments...)
		err = errors.Join(err, printed)
	}
	for _, table := range []struct {
		side  side
		title string
	}{{orderSide, "the order side"}, {consumerSide, "the consumer side"}} {
		var columns []string
		for _, f := range faults {
			if f.touches&table.side != 0 {
				columns = append(columns, f.name)
			}
		}
		print("| %s | %s |\n|---|%s\n", table.title, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
		for _, d := range designs {
			if d.side&table.side == 0 {
				continue
			}
			print("| %s |", d.name)
			for _, fault := range columns {
				print(" %s |", cell(all[d.name+"/"+fault]))
			}
			print("\n")
		}
		print("\n")
	}
	return err
}

func worstOf(runs []result) (worst judge.Figures) {
	for _, r := range runs {
		worst = worst.Max(r.Figures)
	}
	return worst
}

// cell shows the worst figures of all runs of a row, and the median of the time until all was
// finished.
func cell(runs []result) string {
	if len(runs) == 0 {
		return "–"
	}
	worst := worstOf(runs)
	text := worst.String()
	if text != judge.Safe {
		text = "**" + text + "**"
	}
	if worst.Stuck > 0 {
		return text
	}
	times := make([]float64, len(runs))
	for i, r := range runs {
		times[i] = r.recovery
	}
	slices.Sort(times)
	return fmt.Sprintf("%s, %.0f s", text, times[len(times)/2])
}
