package operate

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
)

// printer prints rows, page after page.
type printer struct {
	out    io.Writer
	asJSON bool
	headed bool
}

func (p *printer) page(rows []row) error {
	if p.asJSON {
		for _, r := range rows {
			if err := printJSON(p.out, r); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		if !p.headed {
			_, _ = fmt.Fprintln(table, strings.Join(r.heads(), "\t"))
			p.headed = true
		}
		_, _ = fmt.Fprintln(table, strings.Join(r.cells(), "\t"))
	}
	return table.Flush()
}

// say prints a sentence. Programs that read JSON are spared it.
func (p *printer) say(format string, args ...any) {
	if !p.asJSON {
		_, _ = fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// progress tells how far long work is: a line for each percent at most.
type progress struct {
	to      io.Writer
	total   int
	percent int
}

func (p *progress) at(done int) {
	if p.total <= batchSize || done*100/p.total <= p.percent {
		return
	}
	p.percent = done * 100 / p.total
	_, _ = fmt.Fprintf(p.to, "%d of %s (%d%%)\n", done, events(p.total), p.percent)
}

func printJSON(out io.Writer, value any) error {
	line, err := json.Marshal(value)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", line)
	return err
}

// events counts in words.
func events(n int) string {
	if n == 1 {
		return "1 event"
	}
	return fmt.Sprintf("%d events", n)
}
