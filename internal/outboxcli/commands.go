package outboxcli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"example.com/transactional-outbox/outbox/operate"
)

// The commands here are the same for events and dead letters. Their type parameter is one of the
// two: [events] and [deadLetters] have the flags that choose some, and do the work.

// pageSize is how many events are changed in one transaction. Shorter work reports no progress.
const pageSize = 500

// maxLimit protects against a typing error that prints for hours.
const maxLimit = 10_000

type list[C interface {
	find(ctx context.Context, e *env, limit int) ([]object, error)
	none(e *env) string
}] struct {
	Choice C    `embed:""`
	Limit  int  `default:"100" placeholder:"N" help:"At most N; up to 10000."`
	JSON   bool `help:"Print one JSON object per line."`
}

// Validate checks the limit.
func (c *list[C]) Validate() error {
	if c.Limit < 1 || c.Limit > maxLimit {
		return fmt.Errorf("--limit must be from 1 to %d", maxLimit)
	}
	return nil
}

// Run lists one more than it prints, to know whether there are more.
func (c *list[C]) Run(ctx context.Context, e *env) error {
	found, err := c.Choice.find(ctx, e, c.Limit+1)
	if err != nil {
		return err
	}
	if len(found) > c.Limit {
		found = found[:c.Limit]
		_, _ = fmt.Fprintf(e.progress, "These are the first %d, and there are more. Choose fewer, or use a larger --limit.\n", c.Limit)
	}
	p := e.printer(c.JSON)
	if len(found) == 0 {
		p.sayf("%s", c.Choice.none(e))
	}
	return p.list(found)
}

type show[C interface {
	show(ctx context.Context, e *env, id ID) ([]object, error)
}, ID any] struct {
	ID   ID   `arg:"" help:"An id that list shows."`
	JSON bool `help:"Print one JSON object per line."`
}

// Run prints all that have this id: a dead letter may be there twice.
func (c *show[C, ID]) Run(ctx context.Context, e *env) error {
	var choice C
	found, err := choice.show(ctx, e, c.ID)
	for _, each := range found {
		if err == nil {
			err = e.printer(c.JSON).show(each)
		}
	}
	return err
}

type decide[C interface {
	decide(ctx context.Context, e *env, d *decision, ids []ID) error
	none(e *env) string
}, ID comparable] struct {
	IDs    []ID `arg:"" optional:"" name:"id" help:"Ids that list shows."`
	Choice C    `embed:""`
	All    bool `help:"All that have failed."`
	DryRun bool `help:"Print what would happen, and change nothing."`
	recorded
}

// recorded is in each command whose decision is recorded.
type recorded struct {
	By   text `default:"${user}" placeholder:"NAME" help:"Who decides, for the record: $$OPERATOR, or else the user (${default})."`
	JSON bool `help:"Print one JSON object per line."`
}

func (r recorded) by(filter string) operate.By {
	return operate.NewDecision(string(r.By), operate.CLI, filter)
}

// Validate refuses a choice that is not clear.
func (c *decide[C, ID]) Validate(k *kong.Context) error {
	filtered := filters(k) != ""
	switch {
	case len(c.IDs) > 0 && (filtered || c.All):
		return errors.New("ids do not go together with --all or with flags that choose")
	case c.All && filtered:
		return errors.New("leave out either --all or the flags that choose")
	case len(c.IDs) == 0 && !filtered && !c.All:
		return errors.New("say which: by ids, by flags that choose, or --all; --dry-run changes nothing")
	}
	return nil
}

// Run changes what is chosen. Its error says what was left.
func (c *decide[C, ID]) Run(ctx context.Context, e *env, k *kong.Context) error {
	said := filters(k)
	switch {
	case len(c.IDs) > 0:
		said = operate.ByIDs
	case c.All:
		said = "--all"
	}
	d := &decision{
		printer: e.printer(c.JSON), action: operate.Action(k.Selected().Name), dryRun: c.DryRun, by: c.by(said),
	}
	var ids []ID
	for _, id := range c.IDs {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	err := c.Choice.decide(ctx, e, d, ids)
	if err = errors.Join(err, d.flush()); err != nil {
		err = fmt.Errorf("%d %s, then: %w; run the command again to go on", d.done, d.past(), err)
		if len(d.left) > 0 {
			err = fmt.Errorf("%w\n%v", err, d.left.Error()) // without its status
		}
		return err
	}
	switch {
	case d.done+len(d.left) == 0:
		d.sayf("%s Nothing was %s.", c.Choice.none(e), d.past())
	case d.dryRun:
		d.sayf("%d would be %s. Nothing was changed.", d.done, d.past())
	default:
		d.sayf("%d %s.", d.done, d.past())
	}
	if len(d.left) > 0 {
		return d.left
	}
	return nil
}

// decision is a change at work.
type decision struct {
	*printer
	action  operate.Action
	by      operate.By
	dryRun  bool
	done    int
	changed []object  // what is not printed yet
	left    leftError // what stays as it was, and why
}

// past is what the chosen are afterwards: replayed or discarded.
func (d *decision) past() string { return string(d.action) + "ed" }

// did counts what was changed.
func (d *decision) did(changed ...object) {
	d.done += len(changed)
	if d.dryRun || d.json {
		d.changed = append(d.changed, changed...)
	}
}

func (d *decision) flush() error {
	changed := d.changed
	d.changed = nil
	return d.list(changed)
}

// leftError has what a command has left as it was, each with the reason. It has done the rest.
type leftError []string

func (e leftError) Error() string {
	return "this stays as it was:\n  " + strings.Join(e, "\n  ")
}

// ExitStatus is the status of the process.
func (leftError) ExitStatus() int { return 2 }

// filters returns the flags of a choice as they were typed, or "". They are those in a group. The
// record of a decision has them.
func filters(k *kong.Context) string {
	var typed []string
	for _, p := range k.Path {
		if p.Flag != nil && p.Flag.Group != nil {
			typed = append(typed, "--"+p.Flag.Name, fmt.Sprint(p.Flag.Target))
		}
	}
	return strings.Join(typed, " ")
}
