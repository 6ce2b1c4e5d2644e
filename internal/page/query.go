package page

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.com/transactional-outbox/internal/cli"
)

// Query is the filter of a list, as the user wrote it in a URL or in a form. It also has an error
// text for each field that is wrong.
type Query struct {
	path   string   // the list, such as "/failed"
	names  []string // the fields, in the order of the form
	values url.Values
	errors map[string]string // by field
}

// ReadQuery reads the fields with these names.
func ReadQuery(path string, names []string, values url.Values) Query {
	q := Query{path, names, url.Values{}, map[string]string{}}
	for _, name := range names {
		if value := values.Get(name); value != "" {
			q.values.Set(name, value)
		}
	}
	return q
}

// Get returns a field as the user wrote it, or "". It keeps spaces at the ends, because a key or a
// reason may have them.
func (q Query) Get(name string) string { return q.values.Get(name) }

// Trimmed returns a field without spaces around it.
func (q Query) Trimmed(name string) string { return strings.TrimSpace(q.values.Get(name)) }

// Wrong sets the error text of a field: a sentence for the user.
func (q Query) Wrong(name, text string) { q.errors[name] = text }

// Age reads a duration. It returns 0 if the field is empty or wrong.
func (q Query) Age(name string) time.Duration {
	text := q.Trimmed(name)
	if text == "" {
		return 0
	}
	age, err := cli.Duration(text)
	if err != nil {
		q.Wrong(name, "It is not a duration above zero such as 90s, 30m or 24h.")
	}
	return age
}

// Times reads a time range. It includes the time since, and excludes the time until. An empty field
// is the zero time.
func (q Query) Times(since, until string) (from, before time.Time) {
	from, before = q.time(since), q.time(until)
	if !from.IsZero() && !before.IsZero() && !from.Before(before) {
		q.Wrong(until, "It is not after the field “failed at or after”.")
	}
	return from, before
}

func (q Query) time(name string) time.Time {
	text := q.Trimmed(name)
	if text == "" {
		return time.Time{}
	}
	at, err := ParseTime(text)
	if err != nil {
		q.Wrong(name, err.Error())
	}
	return at
}

// Problem returns an error with the name of the first wrong field, or nil. Do not use the filter if
// there is an error.
func (q Query) Problem() error {
	for _, name := range q.names {
		if text := q.errors[name]; text != "" {
			return Errorf(http.StatusUnprocessableEntity, "The field %s is wrong. %s", name, text)
		}
	}
	return nil
}

// Path returns the URL of the list with this filter. If after is not "", the list begins after that
// place.
func (q Query) Path(after string) string {
	values := url.Values{}
	for name := range q.values {
		values.Set(name, q.Get(name))
	}
	if after != "" {
		values.Set(FieldAfter, after)
	}
	if len(values) == 0 {
		return q.path
	}
	return q.path + "?" + values.Encode()
}

// FieldAfter is the name of the URL's field that says after which place a list begins.
const FieldAfter = "after"

// Hidden returns the filter as hidden fields, for the form around the table.
func (q Query) Hidden() (fields []Hidden) {
	for _, name := range q.names {
		if value := q.Get(name); value != "" {
			fields = append(fields, Hidden{name, value})
		}
	}
	return fields
}

// Input returns a field of the form.
func (q Query) Input(name, label, hint string, kind Kind) Input {
	return Input{Name: name, Label: label, Kind: kind, Value: q.Get(name), Hint: hint, Error: q.errors[name]}
}

// Choice returns a field of the form that offers these values. If the user has chosen another
// value, it offers that one, too.
func (q Query) Choice(name, label string, offered []string) Input {
	input, known := q.Input(name, label, "", ChoiceInput), map[string]bool{"": true}
	input.Options = []Option{{Value: "", Text: "any"}}
	for _, value := range append(offered, q.Get(name)) {
		if !known[value] {
			known[value] = true
			input.Options = append(input.Options, Option{value, value})
		}
	}
	return input
}
