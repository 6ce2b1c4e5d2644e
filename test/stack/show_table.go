package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// printEvents prints one line for each layer of each event.
func printEvents(w io.Writer, orderID string, events []event) error {
	fmt.Fprintf(w, "order %s\n\n", orderID)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "EVENT\tLAYER\tSINCE COMMIT\tAT\tDETAIL")
	for _, e := range events {
		for _, l := range e.layers() {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n",
				e.topic, l.name, since(e.committed, l.at), clock(l.at), l.detail)
		}
	}
	return table.Flush()
}

func since(commit time.Time, at *time.Time) string {
	if at == nil {
		return "-"
	}
	return fmt.Sprintf("%9.1f ms", float64(at.Sub(commit).Microseconds())/1000)
}

func clock(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return at.Local().Format("15:04:05.000")
}
