package outboxcli

import (
	"context"
	"errors"
	"fmt"

	"example.com/transactional-outbox/outbox/operate"
)

// pausedTopics are the paused topics of an outbox.
type pausedTopics struct{}

func (pausedTopics) none(*env) string { return "No topic is paused." }

func (pausedTopics) find(ctx context.Context, e *env, limit int) (found []object, err error) {
	err = e.operator(ctx, func(o *operate.Operator) error {
		paused, err := o.Topics(ctx, "", limit)
		for _, t := range paused {
			found = append(found, object{ // the names are those of outbox_topics
				{"topic", t.Topic},
				{"since", t.Since},
				{"until", t.Until},               // null: until an operator resumes it
				{"operator", orNull(t.Operator)}, // null: the relay
				{"waiting", t.Waiting},
				{"more_waiting", t.More},
				{"reason", t.Reason},
			})
		}
		return err
	})
	return found, err
}

type pause struct {
	Topic  text `arg:"" help:"A topic, or '*' for every topic."`
	Reason text `required:"" placeholder:"TEXT" help:"Why, for other operators."`
	recorded
}

// Run pauses the topic.
func (c *pause) Run(ctx context.Context, e *env) error {
	return e.operator(ctx, func(o *operate.Operator) error {
		err := o.Pause(ctx, c.by("--reason "+string(c.Reason)), string(c.Topic), string(c.Reason))
		return e.printTopic(c.JSON, c.Topic, "paused", err)
	})
}

type resume struct {
	Topic text `arg:"" help:"A paused topic, or '*' if every topic is paused."`
	recorded
}

// Run resumes the topic, whoever has paused it.
func (c *resume) Run(ctx context.Context, e *env) error {
	return e.operator(ctx, func(o *operate.Operator) error {
		err := o.Resume(ctx, c.by(operate.ByIDs), string(c.Topic))
		if errors.Is(err, operate.ErrNotPaused) {
			return leftError{fmt.Sprintf("%s is not paused; `%s outbox topics` lists those that are", c.Topic, e.Name)}
		}
		return e.printTopic(c.JSON, c.Topic, "resumed", err)
	})
}

func (e *env) printTopic(asJSON bool, topic text, state string, err error) error {
	if err != nil {
		return err
	}
	p := e.printer(asJSON)
	p.sayf("%s %s.", printable(string(topic)), state)
	if asJSON {
		err = p.show(object{{"topic", topic}, {"state", state}})
	}
	return err
}
