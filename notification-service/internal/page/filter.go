package page

import (
	"maps"
	"net/url"

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

var filterFields = []string{fieldReason, fieldKey, fieldOlder, fieldID, fieldSince, fieldUntil}

// filterForm is the filter of dead letters, as the user wrote it.
type filterForm struct {
	page.Query
	filter deadletter.Filter
}

// readFilter reads the fields of a URL or of a form.
func readFilter(values url.Values) filterForm {
	f := filterForm{Query: page.ReadQuery("/dead", filterFields, values)}
	f.filter = deadletter.Filter{Reason: f.Get(fieldReason), RoutingKey: f.Get(fieldKey), OlderThan: f.Age(fieldOlder)}
	if id := f.Trimmed(fieldID); id != "" {
		f.filter.IDs = []string{id}
	}
	f.filter.Since, f.filter.Until = f.Times(fieldSince, fieldUntil)
	return f
}

// fieldMessage is fieldID in a POST.
const fieldMessage = "message"

// hidden returns the filter for the form of the table. The table itself sends the field id, so the
// message id has another name there.
func (f filterForm) hidden() []page.Hidden {
	fields := f.Hidden()
	for i := range fields {
		if fields[i].Name == fieldID {
			fields[i].Name = fieldMessage
		}
	}
	return fields
}

// readPostedFilter reads the fields that hidden has written.
func readPostedFilter(values url.Values) filterForm {
	posted := maps.Clone(values)
	posted.Set(fieldID, values.Get(fieldMessage))
	return readFilter(posted)
}

// maxChoices is how many reasons the form offers. Any publisher can write any reason.
const maxChoices = 30

func (f filterForm) part(groups []deadletter.Group) page.Filter {
	reason := f.Input(fieldReason, "Reason (code)", "such as retries-exhausted", page.TextInput)
	if len(groups) > 0 && len(groups) <= maxChoices {
		codes := make([]string, 0, len(groups))
		for _, g := range groups {
			codes = append(codes, g.Code)
		}
		reason = f.Choice(fieldReason, "Reason (code)", codes)
	}
	return page.Filter{Path: "/dead", Fields: []page.Input{
		reason,
		f.Input(fieldKey, "Routing key", "such as order.created", page.TextInput),
		f.Input(fieldOlder, "Failed at least this long ago", "such as 90s, 30m or 24h", page.TextInput),
		f.Input(fieldID, "Message id", "", page.TextInput),
		f.Input(fieldSince, "Failed at or after (UTC)", "", page.TimeInput),
		f.Input(fieldUntil, "Failed before (UTC)", "", page.TimeInput),
	}}
}
