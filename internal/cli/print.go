package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Row is a line of a table, or a JSON object.
type Row interface {
	Header() []string
	Cells() []string
}

// Printer prints rows, page after page.
type Printer struct {
	Out    io.Writer
	JSON   bool
	headed bool
}

// Page prints rows. The first page begins with the header.
func (p *Printer) Page(rows []Row) error {
	if p.JSON {
		for _, r := range rows {
			if err := PrintJSON(p.Out, r); err != nil {
				return err
			}
		}
		return nil
	}
	table := newTable(p.Out)
	for _, r := range rows {
		if !p.headed {
			_, _ = fmt.Fprintln(table, strings.Join(r.Header(), "\t"))
			p.headed = true
		}
		_, _ = fmt.Fprintln(table, strings.Join(r.Cells(), "\t"))
	}
	return table.Flush()
}

// HeaderPrinted reports whether a row was printed in the table.
func (p *Printer) HeaderPrinted() bool { return p.headed }

// Printf prints a sentence for people. It prints nothing if the output is JSON.
func (p *Printer) Printf(format string, args ...any) {
	if !p.JSON {
		_, _ = fmt.Fprintf(p.Out, format+"\n", args...)
	}
}

// PrintJSON prints a value on one line. Invalid UTF-8 becomes U+FFFD: messages may come from any
// publisher, so they may contain any bytes.
func PrintJSON(out io.Writer, value any) error {
	line, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", line)
	return err
}

// Lines prints names and values in two columns.
type Lines struct{ table *tabwriter.Writer }

// NewLines returns lines that Flush prints.
func NewLines(out io.Writer) Lines { return Lines{newTable(out)} }

// Add adds a line, unless the name or the value is empty.
func (l Lines) Add(name, value string) {
	if name != "" && value != "" {
		_, _ = fmt.Fprintf(l.table, "%s\t%s\n", Printable(name), Printable(value))
	}
}

// Flush prints the lines, aligned.
func (l Lines) Flush() error { return l.table.Flush() }

func newTable(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }
