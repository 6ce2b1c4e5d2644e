package outboxcli

import (
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

// object is what a command prints: an event, a dead letter, a topic.
type object []field

type field struct {
	name  string // in JSON
	value any
}

// MarshalJSON keeps the order of the fields.
func (o object) MarshalJSON() ([]byte, error) {
	line := []byte("{")
	for i, f := range o {
		if i > 0 {
			line = append(line, ',')
		}
		line = fmt.Appendf(line, "%q:%s", f.name, marshal(f.value))
	}
	return append(line, '}'), nil
}

// printer prints objects: as JSON, one on a line, or as a table.
type printer struct {
	out    io.Writer
	masked bool // addresses of e-mails are shown in part
	json   bool
	headed bool // the table has begun
}

// list prints objects below those before. Their last field is a text of any length. The table has no
// fields that end with _at, because it would be too wide: the age says the same.
func (p *printer) list(objects []object) error {
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	for _, o := range objects {
		if p.json {
			_, _ = fmt.Fprintf(table, "%s\n", p.marshal(o))
			continue
		}
		var names, values []string
		for _, f := range o {
			if name, value := p.text(f); !strings.HasSuffix(name, " at") {
				names, values = append(names, strings.ToUpper(name)), append(values, printable(value))
			}
		}
		if !p.headed {
			p.headed = true
			_, _ = fmt.Fprintln(table, strings.Join(names, "\t"))
		}
		last := len(values) - 1
		values[last] = fmt.Sprintf("%.60s", values[last]) // the command show prints all of it
		_, _ = fmt.Fprintln(table, strings.Join(values, "\t"))
	}
	return table.Flush()
}

// show prints the fields of an object that have a value, and below them its last field, the content.
func (p *printer) show(o object) error {
	if p.json {
		return p.list([]object{o})
	}
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	last := len(o) - 1
	for _, f := range o[:last] {
		if name, value := p.text(f); value != "" {
			_, _ = fmt.Fprintf(table, "%s\t%s\n", name, printable(value))
		}
	}
	name, value := p.text(o[last])
	_, _ = fmt.Fprintln(table, name)
	content := jsontext.Value(value)
	if strings.Count(value, "[")+strings.Count(value, "{") < maxIndented {
		_ = content.Indent(jsontext.WithIndent("  ")) // unless it is text
	}
	for line := range strings.SplitSeq(string(content), "\n") {
		_, _ = fmt.Fprintln(table, printable(line))
	}
	return table.Flush()
}

// maxIndented is for values that are nested so deep that their spaces would take much memory.
const maxIndented = 1000

// sayf prints a sentence for people.
func (p *printer) sayf(format string, args ...any) {
	if !p.json {
		_, _ = fmt.Fprintf(p.out, format+"\n", args...)
	}
}

func (p *printer) marshal(value any) jsontext.Value {
	if p.masked {
		return maskJSON(marshal(value))
	}
	return marshal(value)
}

// text returns a field for people. What is null is "".
func (p *printer) text(f field) (name, text string) {
	value := p.marshal(f.value)
	name, text = strings.ReplaceAll(f.name, "_", " "), string(value)
	switch {
	case value.Kind() == 'n':
		text = ""
	case value.Kind() == '"':
		unquoted, _ := jsontext.AppendUnquote(nil, value) // it is valid
		text = string(unquoted)
	case strings.HasSuffix(name, " seconds"):
		seconds, _ := strconv.ParseFloat(text, 64)
		name, text = strings.TrimSuffix(name, " seconds"), (time.Duration(seconds) * time.Second).String()
	}
	return name, text
}

// marshal also accepts what any publisher may have written: text that is not UTF-8 becomes U+FFFD,
// and times may be beyond the year 9999. A time is in UTC, and null if it is zero. What JSON does not
// have becomes a text.
func marshal(value any) jsontext.Value {
	marshalled, err := json.Marshal(value, jsontext.AllowInvalidUTF8(true), json.Deterministic(true),
		json.WithMarshalers(json.MarshalFunc(func(at time.Time) ([]byte, error) {
			if at.IsZero() {
				return []byte("null"), nil
			}
			return jsontext.AppendQuote(nil, at.UTC().Format(time.RFC3339Nano))
		})))
	if err != nil {
		marshalled, _ = jsontext.AppendQuote(nil, fmt.Sprintf("%+q", fmt.Sprint(value)))
	}
	return marshalled
}

// orNull returns a text, or null if it is empty.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
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
