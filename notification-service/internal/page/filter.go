package page

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
)

// The fields of the filter, in the URL and in the form.
const (
	fieldReason = "reason"
	fieldKey    = "key"
	fieldOlder  = "older"
	fieldID     = "id" // of the message, in the URL; a POST has the chosen keys in it
	fieldSince  = "since"
	fieldUntil  = "until"
)

// filterForm is a filter as the user wrote it.
type filterForm struct {
	values url.Values
	errors map[string]string // by field
	filter deadletter.Filter
}

// readFilter reads the fields of a URL or of a form. With errors, the filter must not be used.
func readFilter(values url.Values) filterForm {
	f := filterForm{values: url.Values{}, errors: map[string]string{}}
	for _, name := range []string{fieldReason, fieldKey, fieldOlder, fieldID, fieldSince, fieldUntil} {
		value := values.Get(name)
		if name != fieldReason && name != fieldKey { // any publisher chooses these: they may have spaces
			value = strings.TrimSpace(value)
		}
		if value != "" {
			f.values.Set(name, value)
		}
	}
	f.filter.Reason, f.filter.RoutingKey = f.values.Get(fieldReason), f.values.Get(fieldKey)
	if id := f.values.Get(fieldID); id != "" {
		f.filter.IDs = []string{id}
	}
	if older := f.values.Get(fieldOlder); older != "" {
		age, err := time.ParseDuration(older)
		if f.filter.OlderThan = age; err != nil || age <= 0 {
			f.errors[fieldOlder] = "It is not a duration above zero."
		}
	}
	f.filter.Since, f.filter.Until = f.time(fieldSince), f.time(fieldUntil)
	if !f.filter.Since.IsZero() && !f.filter.Until.IsZero() && !f.filter.Since.Before(f.filter.Until) {
		f.errors[fieldUntil] = "It is not after the field “failed at or after”."
	}
	return f
}

func (f filterForm) time(name string) time.Time {
	value := f.values.Get(name)
	if value == "" {
		return time.Time{}
	}
	at, err := page.ParseTime(value)
	if err != nil {
		f.errors[name] = err.Error()
	}
	return at
}

// path returns the list with this filter, and with further fields of the URL.
func (f filterForm) path(more ...string) string {
	query := url.Values{}
	for name := range f.values {
		query.Set(name, f.values.Get(name))
	}
	for i := 0; i+1 < len(more); i += 2 {
		query.Set(more[i], more[i+1])
	}
	if len(query) == 0 {
		return "/dead"
	}
	return "/dead?" + query.Encode()
}

// hidden returns the filter for the form of the table. The table itself sends the field id, so the
// message id has another name there.
func (f filterForm) hidden() (fields []page.Hidden) {
	for _, name := range []string{fieldReason, fieldKey, fieldOlder, fieldID, fieldSince, fieldUntil} {
		if value := f.values.Get(name); value != "" {
			if name == fieldID {
				name = fieldMessage
			}
			fields = append(fields, page.Hidden{Name: name, Value: value})
		}
	}
	return fields
}

// fieldMessage is fieldID in a POST.
const fieldMessage = "message"

// readPostedFilter reads the fields that hidden has written.
func readPostedFilter(values url.Values) filterForm {
	posted := url.Values{}
	for name := range values {
		posted.Set(name, values.Get(name))
	}
	posted.Set(fieldID, values.Get(fieldMessage))
	return readFilter(posted)
}

// maxChoices is how many reasons the form offers. Any publisher can write any reason.
const maxChoices = 30

func (f filterForm) part(groups []deadletter.Group) page.Filter {
	input := func(name, label, hint string, kind page.Kind) page.Input {
		return page.Input{Name: name, Label: label, Kind: kind, Value: f.values.Get(name), Hint: hint, Error: f.errors[name]}
	}
	reason := input(fieldReason, "Reason (code)", "such as retries-exhausted", page.TextInput)
	if len(groups) > 0 && len(groups) <= maxChoices {
		reason.Kind, reason.Hint, reason.Options = page.ChoiceInput, "", f.reasons(groups)
	}
	return page.Filter{Path: "/dead", Fields: []page.Input{
		reason,
		input(fieldKey, "Routing key", "such as order.created", page.TextInput),
		input(fieldOlder, "Failed at least this long ago", "such as 90s, 30m or 24h", page.TextInput),
		input(fieldID, "Message id", "", page.TextInput),
		input(fieldSince, "Failed at or after (UTC)", "", page.TimeInput),
		input(fieldUntil, "Failed before (UTC)", "", page.TimeInput),
	}}
}

func (f filterForm) reasons(groups []deadletter.Group) []page.Option {
	options := []page.Option{{Value: "", Text: "any"}}
	chosen := f.values.Get(fieldReason)
	if chosen != "" && !slices.ContainsFunc(groups, func(g deadletter.Group) bool { return g.Code == chosen }) {
		options = append(options, page.Option{Value: chosen, Text: chosen})
	}
	for _, g := range groups {
		options = append(options, page.Option{Value: g.Code, Text: g.Code})
	}
	return options
}
