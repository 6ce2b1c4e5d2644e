package outboxcli

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// printer prints objects: as JSON, one on a line, or the same fields for people.
type printer struct {
	out    io.Writer
	masked bool // addresses of e-mails are shown in part
	json   bool
	headed bool // the table has begun
}

// list prints objects as a table, below those before. Their last field is a text of any length. The
// table has no fields that end with _at, because it would be too wide: the age says the same.
func (p *printer) list(objects []any) error {
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, object := range objects {
		fields, err := p.fields(object)
		if err != nil {
			return err
		}
		var names, values []string
		for _, f := range fields {
			if !strings.HasSuffix(f.name, " at") {
				names, values = append(names, strings.ToUpper(f.name)), append(values, printable(f.value))
			}
		}
		if len(fields) > 0 && !p.headed {
			p.headed = true
			_, _ = fmt.Fprintln(table, strings.Join(names, "\t"))
		}
		if last := len(values) - 1; last >= 0 {
			values[last] = fmt.Sprintf("%.60s", values[last]) // the command show prints all of it
			_, _ = fmt.Fprintln(table, strings.Join(values, "\t"))
		}
	}
	return table.Flush()
}

// show prints the fields of an object that have a value, and below them its last field, the content.
func (p *printer) show(object any) error {
	fields, err := p.fields(object)
	if err != nil || len(fields) == 0 {
		return err
	}
	last := len(fields) - 1
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, f := range fields[:last] {
		if f.value != "" {
			_, _ = fmt.Fprintf(table, "%s\t%s\n", f.name, printable(f.value))
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	content := jsontext.Value(fields[last].value)
	_ = content.Indent(jsontext.WithIndent("  ")) // unless it is text
	lines := strings.Split(string(content), "\n")
	for i, line := range lines {
		lines[i] = printable(line)
	}
	_, err = fmt.Fprintf(p.out, "%s\n%s\n", fields[last].name, strings.Join(lines, "\n"))
	return err
}

// sayf prints a sentence for people.
func (p *printer) sayf(format string, args ...any) {
	if !p.json {
		_, _ = fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// field is a field of an object, for people.
type field struct{ name, value string }

// fields returns the fields of an object for people. If they want JSON, it prints that instead.
func (p *printer) fields(object any) (fields []field, err error) {
	line, err := marshal(object)
	if err == nil && p.masked {
		line, err = maskJSON(line)
	}
	if err != nil {
		return nil, err
	}
	if p.json {
		_, err = fmt.Fprintf(p.out, "%s\n", line)
		return nil, err
	}
	in := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true))
	_, _ = in.ReadToken() // marshal has made an object, so there is no error
	for in.PeekKind() == '"' {
		token, _ := in.ReadToken()
		name := strings.ReplaceAll(token.String(), "_", " ")
		value, _ := in.ReadValue()
		fields = append(fields, fieldOf(name, value))
	}
	return fields, nil
}

func fieldOf(name string, value jsontext.Value) field {
	f := field{name, string(value)}
	switch {
	case value.Kind() == 'n':
		f.value = ""
	case value.Kind() == '"':
		text, _ := jsontext.AppendUnquote(nil, value) // it is valid
		f.value = string(text)
	case strings.HasSuffix(name, " seconds"):
		seconds, _ := strconv.ParseFloat(f.value, 64)
		f = field{strings.TrimSuffix(name, " seconds"), (time.Duration(seconds) * time.Second).String()}
	}
	return f
}

// marshal also accepts what any publisher may have written: text that is not UTF-8 becomes U+FFFD,
// and times may be beyond the year 9999. A time is in UTC, and null if it is zero.
func marshal(value any) (jsontext.Value, error) {
	return json.Marshal(value, jsontext.AllowInvalidUTF8(true), json.Deterministic(true),
		json.WithMarshalers(json.MarshalFunc(func(at time.Time) ([]byte, error) {
			if at.IsZero() {
				return []byte("null"), nil
			}
			return jsontext.AppendQuote(nil, at.UTC().Format(time.RFC3339Nano))
		})))
}

// orNull is a text that is null in JSON if it is empty.
type orNull string

// MarshalJSON returns the text.
func (t orNull) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	return jsontext.AppendQuote(nil, string(t))
}

// contentOf returns a payload or a body as JSON, and how: json as it is, text, or base64.
func contentOf(content []byte) (encoding string, value jsontext.Value) {
	if value = jsontext.Value(content).Clone(); value.Compact() == nil {
		return "json", value
	}
	encoding, text := "text", string(content)
	if !utf8.Valid(content) {
		encoding, text = "base64", base64.StdEncoding.EncodeToString(content)
	}
	value, _ = jsontext.AppendQuote(nil, text) // it is valid UTF-8
	return encoding, value
}

// printable replaces unprintable characters. Text from others must not move the cursor or change
// the colours of the terminal.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

// progress reports how far long work is: at most one line for each percent.
type progress struct {
	to      io.Writer
	total   int
	percent int
}

func (p *progress) at(done int) {
	if p.total <= pageSize || done*100/p.total <= p.percent {
		return
	}
	p.percent = done * 100 / p.total
	_, _ = fmt.Fprintf(p.to, "%d of %d (%d%%)\n", done, p.total, p.percent)
}
