package dlq

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/rabbitmq"
)

func show(program string) command {
	return command{
		Name: "show", Arguments: "ID [flags]",
		Does: "show one message: properties, headers and body",
		More: `Shows the properties, the headers and the body of one message. The body is in base64
if it is not text. If several messages have that id, it shows all of them. For example:

  ` + program + ` show 0198f2d3-5b7c-7c3e-9d4a-6f2b8e1c0a57

` + concurrencyNote,
		Define: func(flags *flag.FlagSet) func([]string) (Action, error) {
			asJSON := cli.DefineJSON(flags)
			return func(args []string) (Action, error) {
				ids, err := identifier(program, args)
				return showCommand{program, filter{ids: ids}, *asJSON}.run, err
			}
		},
	}
}

type showCommand struct {
	program string
	filter  filter
	asJSON  bool
}

func (s showCommand) run(ctx context.Context, deps Dependencies) error {
	var details []detail
	err := deps.Open(ctx, func(ctx context.Context, letters Letters) error {
		return deps.each(ctx, letters, func(l rabbitmq.DeadLetter) (bool, error) {
			if s.filter.matches(l, time.Time{}) {
				details = append(details, detailOf(l))
			}
			return true, nil
		})
	})
	if err == nil && len(details) == 0 {
		err = errors.New(notFound(s.program, s.filter.ids[0]))
	}
	for _, each := range details {
		if err == nil {
			err = each.print(deps.Out, s.asJSON)
		}
	}
	return err
}

func (d detail) print(out io.Writer, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(out, d)
	}
	lines := cli.NewLines(out)
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
		lines.Add("header "+name, headerText(d.Headers[name]))
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "body, %d bytes, %s\n%s\n", d.Size, d.BodyEncoding, d.bodyForPeople())
	return err
}

// bodyForPeople keeps the lines, and removes characters that control a terminal.
func (d detail) bodyForPeople() string {
	lines := strings.Split(d.bodyText(), "\n")
	for i := range lines {
		lines[i] = cli.Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}
