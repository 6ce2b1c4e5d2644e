package page

import (
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/order-service/internal/order"
	"example.com/transactional-outbox/order-service/internal/outbox"
)

// The fields of the filter, in the URL of the list and in the form of its table.
const (
	fieldReason = "reason"
	fieldKey    = "key"
	fieldOlder  = "older"
	fieldEvent  = "event"
	fieldOrder  = "order"
	fieldSince  = "since"
	fieldUntil  = "until"
)

var filterFields = []string{fieldReason, fieldKey, fieldOlder, fieldEvent, fieldOrder, fieldSince, fieldUntil}

// filterForm is the filter of failed events, as the user wrote it.
type filterForm struct {
	values map[string]string // without empty ones
	errors map[string]string
	older  time.Duration
	filter outbox.Filter // without older
}

func readFilter(values url.Values) filterForm {
	f := filterForm{values: map[string]string{}, errors: map[string]string{}}
	for _, name := range filterFields {
		if value := strings.TrimSpace(values.Get(name)); value != "" {
			f.values[name] = value
		}
	}
	f.filter = outbox.Filter{
		Status: "failed", FailureCode: f.values[fieldReason], EventKey: f.values[fieldKey],
		ID: f.id(fieldEvent), From: f.time(fieldSince), Before: f.time(fieldUntil),
	}
	if f.filter.AggregateID = f.id(fieldOrder); f.filter.AggregateID != uuid.Nil {
		f.filter.AggregateType = order.Aggregate
	}
	for _, name := range []string{fieldReason, fieldKey} {
		if strings.ContainsRune(f.values[name], 0) || !utf8.ValidString(f.values[name]) {
			f.errors[name] = "It contains a zero byte, or bytes that are not UTF-8." // PostgreSQL has none
		}
	}
	if text := f.values[fieldOlder]; text != "" {
		var err error
		if f.older, err = cli.Duration(text); err != nil {
			f.errors[fieldOlder] = "It is not a duration such as 90s, 30m or 24h."
		}
	}
	return f
}

func (f filterForm) id(name string) uuid.UUID {
	text := f.values[name]
	if text == "" {
		return uuid.Nil
	}
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil {
		f.errors[name] = "It is not an id such as 01a1fdcf-5fed-71b2-b722-684f3f08e75e."
	}
	return id
}

func (f filterForm) time(name string) time.Time {
	text := f.values[name]
	if text == "" {
		return time.Time{}
	}
	at, err := page.ParseTime(text)
	if err != nil {
		f.errors[name] = err.Error()
	}
	return at
}

// empty reports whether the filter chooses every failed event. A field may be filled in and choose
// all nevertheless: the year 1 is how Go writes that there is no time.
func (f filterForm) empty() bool { return f.older == 0 && f.filter.String() == "" }

// at returns the filter at a moment. "Older" ends so long before it.
func (f filterForm) at(now time.Time) outbox.Filter {
	filter := f.filter
	if end := now.Add(-f.older); f.older > 0 && (filter.Before.IsZero() || end.Before(filter.Before)) {
		filter.Before = end
	}
	return filter
}

// problem is an error that names a wrong field.
func (f filterForm) problem() error {
	for _, name := range filterFields {
		if text := f.errors[name]; text != "" {
			return page.Errorf(http.StatusUnprocessableEntity, "The field %s is wrong. %s", name, text)
		}
	}
	return nil
}

// path returns the list with this filter, after a place.
func (f filterForm) path(after string) string {
	query := url.Values{}
	for name, value := range f.values {
		query.Set(name, value)
	}
	if after != "" {
		query.Set(fieldAfter, after)
	}
	if len(query) == 0 {
		return "/failed"
	}
	return "/failed?" + query.Encode()
}

// hidden returns the filter for the form of the table.
func (f filterForm) hidden() (fields []page.Hidden) {
	for _, name := range filterFields {
		if value := f.values[name]; value != "" {
			fields = append(fields, page.Hidden{Name: name, Value: value})
		}
	}
	return fields
}

func (f filterForm) part(groups []outbox.FailureGroup) page.Filter {
	input := func(name, label, hint string, kind page.Kind) page.Input {
		return page.Input{Name: name, Label: label, Kind: kind, Value: f.values[name], Hint: hint, Error: f.errors[name]}
	}
	reason := input(fieldReason, "Reason (code)", "", page.ChoiceInput)
	reason.Options = f.reasons(groups)
	return page.Filter{Path: "/failed", Fields: []page.Input{
		reason,
		input(fieldKey, "Event key", "such as order.created", page.TextInput),
		input(fieldOlder, "Failed at least this long ago", "such as 90s, 30m or 24h", page.TextInput),
		input(fieldOrder, "Order id", "", page.TextInput),
		input(fieldEvent, "Event id", "it is also the message id", page.TextInput),
		input(fieldSince, "Failed at or after (UTC)", "", page.TimeInput),
		input(fieldUntil, "Failed at or before (UTC)", "", page.TimeInput),
	}}
}

// reasons are those that events have failed with, and the chosen one.
func (f filterForm) reasons(groups []outbox.FailureGroup) []page.Option {
	options, offered := []page.Option{{Value: "", Text: "any"}}, map[string]bool{"": true}
	offer := func(code string) {
		if !offered[code] {
			offered[code] = true
			options = append(options, page.Option{Value: code, Text: code})
		}
	}
	for _, g := range groups {
		offer(g.FailureCode)
	}
	offer(f.values[fieldReason])
	return options
}
