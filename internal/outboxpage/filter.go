package outboxpage

import (
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/outbox/operate"
)

// The fields of the filter, in the URL of the list and in the form of its table.
const (
	fieldReason = "reason"
	fieldTopic  = "topic"
	fieldOlder  = "older"
	fieldEvent  = "event"
	fieldOrder  = "order"
	fieldSince  = "since"
	fieldUntil  = "until"
)

var filterFields = []string{fieldReason, fieldTopic, fieldOlder, fieldEvent, fieldOrder, fieldSince, fieldUntil}

// filterForm is the filter of failed events, as the user wrote it.
type filterForm struct {
	page.Query
	older  time.Duration
	filter operate.Filter // without older
}

func readFilter(values url.Values) filterForm {
	f := filterForm{Query: page.ReadQuery("/failed", filterFields, values)}
	f.filter = operate.Filter{
		Status: operate.Failed, FailureCode: f.text(fieldReason), Topic: f.text(fieldTopic), IDs: f.ids(fieldEvent),
	}
	if f.filter.AggregateID = f.text(fieldOrder); f.filter.AggregateID != "" {
		f.filter.Aggregate = aggregate
	}
	f.filter.From, f.filter.Before = f.Times(fieldSince, fieldUntil)
	f.older = f.Age(fieldOlder)
	return f
}

func (f filterForm) text(name string) string {
	text := f.Trimmed(name)
	if strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
		f.Wrong(name, "It contains a zero byte, or bytes that are not UTF-8.") // PostgreSQL has none
	}
	return text
}

func (f filterForm) ids(name string) []uuid.UUID {
	text := f.Trimmed(name)
	if text == "" {
		return nil
	}
	id, err := uuid.Parse(text)
	if err != nil || id == uuid.Nil {
		f.Wrong(name, "It is not an id such as 01a1fdcf-5fed-71b2-b722-684f3f08e75e.")
	}
	return []uuid.UUID{id}
}

// empty reports whether the filter chooses every failed event. A field may be filled in and choose
// all nevertheless: the year 1 is how Go writes that there is no time.
func (f filterForm) empty() bool { return f.older == 0 && f.filter.String() == "" }

// at returns the filter at a moment. "Older" ends so long before it.
func (f filterForm) at(now time.Time) operate.Filter {
	filter := f.filter
	if end := now.Add(-f.older); f.older > 0 && (filter.Before.IsZero() || end.Before(filter.Before)) {
		filter.Before = end
	}
	return filter
}

func (f filterForm) part(groups []operate.FailureGroup) page.Filter {
	codes := make([]string, 0, len(groups))
	for _, g := range groups {
		codes = append(codes, g.FailureCode)
	}
	return page.Filter{Path: "/failed", Fields: []page.Input{
		f.Choice(fieldReason, "Reason (code)", codes),
		f.Input(fieldTopic, "Topic", "", page.TextInput),
		f.Input(fieldOlder, "Failed at least this long ago", "such as 90s, 30m or 24h", page.TextInput),
		f.Input(fieldOrder, "Order id", "", page.TextInput),
		f.Input(fieldEvent, "Event id", "it is also the message id", page.TextInput),
		f.Input(fieldSince, "Failed at or after (UTC)", "", page.TimeInput),
		f.Input(fieldUntil, "Failed before (UTC)", "", page.TimeInput),
	}}
}
