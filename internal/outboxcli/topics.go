package outboxcli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/outbox/operate"
)

const topicNoun cli.Noun = "topic"

func (s Service) topics() command {
	return command{
		Name: "topics", Arguments: "[flags]",
		Does: "list paused topics",
		More: `Lists the paused topics: since when, why, who paused each, and how many of its events are
held back. The relay pauses a topic whose events ` + s.Destination + ` does not take; it tries one
event from time to time. A topic that an operator has paused waits until it is resumed.
For example:

  ` + s.program() + ` topics --json | jq -r .topic`,
		Define: func(flags *flag.FlagSet) func([]string) (Action, error) {
			limit, asJSON := cli.DefineLimit(flags, topicNoun), cli.DefineJSON(flags)
			return func(args []string) (Action, error) {
				if err := cli.NoArguments(args); err != nil {
					return nil, err
				}
				return func(ctx context.Context, d Dependencies) error { return s.listTopics(ctx, d, *limit, *asJSON) }, limit.Check()
			}
		},
	}
}

func (s Service) pause() command {
	return command{
		Name: "pause", Arguments: "TOPIC --reason TEXT [flags]",
		Does: "hold the events of a topic back until it is resumed",
		More: `Holds the events of a topic back. They are kept, and sent when the topic is resumed. The
topic * is every topic; with it a restored database can be held before the first start.
For example:

  ` + s.program() + ` pause ` + s.Topic + ` --reason "the broker moves on Monday"
  ` + s.program() + ` pause '*' --reason "restored from a backup"`,
		Define: func(flags *flag.FlagSet) func([]string) (Action, error) {
			reason := cli.DefineText(flags, "reason", "why, as `TEXT` for other operators", `"the broker moves"`)
			asJSON := cli.DefineJSON(flags)
			return func(args []string) (Action, error) {
				topic, err := oneTopic(args)
				if err == nil && *reason == "" {
					err = errors.New("give --reason")
				}
				return func(ctx context.Context, d Dependencies) error {
					by := operate.NewDecision(d.By, operate.CLI, "--reason "+*reason)
					err := d.Outbox.Pause(ctx, by, topic, *reason)
					return printChange(d, *asJSON, topic, "paused", err)
				}, err
			}
		},
	}
}

func (s Service) resume() command {
	return command{
		Name: "resume", Arguments: "TOPIC [flags]",
		Does: "send the events of a paused topic again",
		More: `Ends the pause of a topic, whether an operator or the relay has paused it. The relay then
sends its events. For example:

  ` + s.program() + ` resume ` + s.Topic + `
  ` + s.program() + ` resume '*'`,
		Define: func(flags *flag.FlagSet) func([]string) (Action, error) {
			asJSON := cli.DefineJSON(flags)
			return func(args []string) (Action, error) {
				topic, err := oneTopic(args)
				return func(ctx context.Context, d Dependencies) error {
					err := d.Outbox.Resume(ctx, operate.NewDecision(d.By, operate.CLI, operate.ByIDs), topic)
					if errors.Is(err, operate.ErrNotPaused) {
						err = fmt.Errorf("the topic %q is not paused; `%s topics` lists those that are", topic, s.program())
					}
					return printChange(d, *asJSON, topic, "resumed", err)
				}, err
			}
		},
	}
}

func oneTopic(args []string) (string, error) {
	if len(args) != 1 || args[0] == "" {
		return "", errors.New("name one topic, or '*' for every topic")
	}
	return args[0], nil
}

// printChange prints what became of a topic, unless there is an error.
func printChange(d Dependencies, asJSON bool, topic, state string, err error) error {
	if err != nil {
		return err
	}
	if asJSON {
		return cli.PrintJSON(d.Out, map[string]string{"topic": topic, "state": state})
	}
	_, err = fmt.Fprintf(d.Out, "%s %s.\n", cli.Printable(topic), state)
	return err
}

// pausedTopic is a topic in a list. Its JSON has the names of the columns of outbox_topics.
type pausedTopic struct {
	Topic    string     `json:"topic"`
	Since    *time.Time `json:"since"`
	Until    *time.Time `json:"until"` // null: until an operator resumes it
	Operator *string    `json:"operator"`
	Halted   int        `json:"halted"`
	More     bool       `json:"more_halted"`
	Reason   string     `json:"reason"`
}

// Header names the columns.
func (pausedTopic) Header() []string {
	return []string{"TOPIC", "SINCE", "UNTIL", "BY", "HALTED", "REASON"}
}

// Cells are its values.
func (t pausedTopic) Cells() []string {
	until, by, halted := "resumed", "the relay", fmt.Sprint(t.Halted)
	if t.Until != nil {
		until = t.Until.Format(time.RFC3339)
	}
	if t.Operator != nil {
		by = cli.Printable(*t.Operator)
	}
	switch {
	case t.Topic == operate.EveryTopic:
		halted = "all" // no event is looked at, so none is halted one by one
	case t.More:
		halted += "+"
	}
	return []string{
		cli.Printable(t.Topic), t.Since.Format(time.RFC3339), until, by, halted, cli.Truncate(cli.Printable(t.Reason)),
	}
}

func (s Service) listTopics(ctx context.Context, d Dependencies, limit cli.Limit, asJSON bool) error {
	// It reads one more than it prints, to know whether there are more.
	paused, err := d.Outbox.Topics(ctx, "", limit.N+1)
	if err != nil {
		return err
	}
	p := cli.Printer{Out: d.Out, JSON: asJSON}
	var rows []cli.Row
	for _, t := range paused[:min(limit.N, len(paused))] {
		rows = append(rows, pausedTopic{t.Topic, utc(&t.Since), utc(t.Until), orNull(t.Operator), t.Halted, t.More, s.hideText(t.Reason)})
	}
	if len(rows) == 0 {
		p.Printf("No topic is paused.")
	}
	if len(paused) > limit.N {
		_, _ = fmt.Fprintf(d.Progress, "These are the first %d, and there are more. Use a larger --limit.\n", limit.N)
	}
	return p.Page(rows)
}
