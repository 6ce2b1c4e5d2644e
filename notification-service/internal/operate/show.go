package operate

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"example.com/transactional-outbox/internal/operator"
)

var show = command{
	Name: "show", Arguments: "ID [flags]",
	Does: "show all of one message: properties, headers and body",
	More: `Shows all of one message: its properties, its headers, and its body, which is indented
if it is JSON, and in base64 if it is not text. If there are more messages of that id,
it shows them all. For example:

  ` + program + ` show 0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57

` + inOtherHands,
	Define: func(flags *flag.FlagSet) func([]string) (Action, error) {
		asJSON, none := operator.DefineJSON(flags), defineFilter(flag.NewFlagSet("", flag.ContinueOnError))
		return func(args []string) (_ Action, err error) {
			if none.ids, err = identifier(args); err != nil {
				return nil, err
			}
			return showing{none, *asJSON}.run, nil
		}
	},
}

type showing struct {
	filter
	asJSON bool
}

func (s showing) run(ctx context.Context, d Desk) error {
	var details []detail
	err := d.Broker(ctx, func(ctx context.Context, session Session) error {
		return d.walk(ctx, session, func(f found) (bool, error) {
			if s.fits(f.Letter) {
				details = append(details, detailOf(f))
			}
			return true, nil
		})
	})
	if err == nil && len(details) == 0 {
		err = errors.New(notSeen(s.ids[0]))
	}
	for _, each := range details {
		if err == nil {
			err = each.print(d.Out, s.asJSON)
		}
	}
	return err
}

func (d detail) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return operator.PrintJSON(out, d)
	}
	lines := operator.NewLines(out)
	lines.Add("id", d.ID)
	lines.Add("routing key", d.RoutingKey)
	lines.Add("failure code", d.Code)
	lines.Add("failure reason", d.Reason)
	lines.Add("failed at", d.failedAt())
	lines.Add("age", d.age())
	lines.Add("retries", fmt.Sprint(d.Retries))
	lines.Add("exchange", d.Exchange)
	lines.Add("type", d.Type)
	lines.Add("timestamp", d.Timestamp)
	lines.Add("app id", d.AppID)
	lines.Add("correlation id", d.CorrelationID)
	lines.Add("reply to", d.ReplyTo)
	if d.Priority > 0 {
		lines.Add("priority", fmt.Sprint(d.Priority))
	}
	lines.Add("content type", d.ContentType)
	lines.Add("content encoding", d.ContentEncoding)
	for _, name := range slices.Sorted(maps.Keys(d.Headers)) {
		lines.Add("header "+name, inWords(d.Headers[name]))
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "body, %d bytes, %s\n%s\n", d.Size, d.BodyEncoding, d.bodyForPeople())
	return err
}

func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
