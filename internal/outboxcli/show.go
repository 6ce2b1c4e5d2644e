package outboxcli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/operate"
)

func (s Service) show() command {
	more := `Shows everything about one event, with its payload. The events of one order are sent in
the order of their versions. So it also shows the older events that this one waits for,
and how many later ones wait for it.`
	if s.Masked {
		more += ` E-mail addresses are shown in part.`
	}
	return command{
		Name: "show", Arguments: "ID [flags]",
		Does: "show one event, what it waits for, and what waits for it",
		More: more + ` For example:

  ` + s.program() + ` show 0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57`,
		Define: func(flags *flag.FlagSet) func([]string) (Action, error) {
			asJSON := cli.DefineJSON(flags)
			return func(args []string) (Action, error) {
				ids, err := s.parseIDs(args)
				if err == nil && len(ids) != 1 {
					err = errors.New("name one event by its id")
				}
				if err != nil {
					return nil, err
				}
				return func(ctx context.Context, d Dependencies) error { return s.showEvent(ctx, d, ids[0], *asJSON) }, nil
			}
		},
	}
}

// detail is all that is known about an event.
type detail struct {
	entry
	Seq         int64             `json:"seq"`
	AvailableAt *time.Time        `json:"available_at,omitzero"` // it is due, or the lease of its claim ends
	DiscardedAt *time.Time        `json:"discarded_at,omitzero"`
	LockedBy    *string           `json:"locked_by"`
	Traceparent string            `json:"traceparent"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers,omitzero"`
	Payload     jsontext.Value    `json:"payload"`
	Halted      bool              `json:"halted"` // its topic is paused
	BlockedBy   []entry           `json:"blocked_by"`
	Waiting     int               `json:"waiting"`
}

func (s Service) showEvent(ctx context.Context, d Dependencies, id uuid.UUID, asJSON bool) error {
	found, err := d.Outbox.Show(ctx, id)
	if errors.Is(err, operate.ErrNoEvent) {
		return fmt.Errorf("there is no event %s: it was never committed, or published and pruned; `%s list` shows ids", id, s.program())
	}
	if err != nil {
		return err
	}
	found.Event = s.masked(found.Event)
	e := detail{
		entry: s.entryOf(found.Event), Seq: found.Seq, AvailableAt: utc(found.DueAt), DiscardedAt: utc(found.DiscardedAt),
		LockedBy: orNull(found.Worker), Traceparent: found.Traceparent, ContentType: found.ContentType, Headers: found.Headers,
		Payload: payloadOf(found.Event), Halted: found.Halted, Waiting: found.Waiting,
	}
	if found.ClaimedUntil != nil {
		e.AvailableAt = utc(found.ClaimedUntil)
	}
	for _, older := range found.BlockedBy {
		e.BlockedBy = append(e.BlockedBy, s.entryOf(older))
	}
	if asJSON {
		return cli.PrintJSON(d.Out, e)
	}
	return e.print(d.Out, s.program())
}

// payloadOf returns a payload that is JSON as it is, and any other one as a string of JSON.
func payloadOf(e operate.Event) jsontext.Value {
	if e.CreatedAt.IsZero() {
		return jsontext.Value("null") // it is gone from the log
	}
	if v := jsontext.Value(e.Payload); v.IsValid() {
		return v
	}
	text, _ := jsontext.AppendQuote(nil, e.Payload) // what is not UTF-8 becomes U+FFFD
	return text
}

func (e detail) print(out io.Writer, program string) error {
	if err := e.Payload.Indent(); err != nil {
		return err
	}
	lines := cli.NewLines(out)
	lines.Add("id", e.ID.String())
	lines.Add("topic", e.Topic)
	if e.Aggregate != "" {
		lines.Add("aggregate", fmt.Sprintf("%s/%s, version %d", e.Aggregate, e.AggregateID, e.Version))
	}
	lines.Add("status", e.Status)
	lines.Add("attempts", fmt.Sprint(e.RetryCount))
	lines.Add("failure code", orEmpty(e.FailureCode))
	lines.Add("failure reason", orEmpty(e.FailureReason))
	lines.Add("created at", formatTime(e.CreatedAt))
	lines.Add("published at", formatTime(e.PublishedAt))
	lines.Add("failed at", formatTime(e.FailedAt))
	lines.Add(e.Status+" at", formatTime(e.DiscardedAt)) // discarded or superseded
	lines.Add(availableAtLabel[e.Status], formatTime(e.AvailableAt))
	lines.Add("worker", orEmpty(e.LockedBy))
	lines.Add("traceparent", e.Traceparent)
	if e.ContentType != "application/json" {
		lines.Add("content type", e.ContentType)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Headers)) {
		lines.Add("header "+name, e.Headers[name])
	}
	if e.Halted {
		lines.Add("waits for", "the end of its topic's pause; `"+program+" topics` says why it is paused")
	}
	for _, older := range e.BlockedBy {
		lines.Add("waits for", fmt.Sprintf("%s, version %d, %s", older.ID, older.Version, older.Status))
	}
	if e.Waiting > 0 {
		lines.Add("holds back", event.Count(e.Waiting)+" of its order")
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "payload\n%s\n", e.Payload)
	return err
}

// availableAtLabel is what available_at means in each status. In the others it has no meaning.
var availableAtLabel = map[string]string{operate.Pending: "due at", operate.InProgress: "lease ends at"}

func formatTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.Format(time.RFC3339Nano)
}
