package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/crashpoint"
	"example.com/transactional-outbox/notification-service/internal/consumer"
	"example.com/transactional-outbox/outbox/operate"
)

// Change replays or discards dead letters.
type Change struct {
	Action operate.Action
	By     operate.By
	// Filter chooses the messages, unless Keys is set. Keys says how many messages of each key are
	// chosen. So a message that comes later is not chosen, even if it is equal to a chosen one.
	Filter Filter
	Keys   map[string]int

	Force  bool // also replay messages that may have had their effect
	DryRun bool // choose, and change nothing
	Limit  int  // read at most this many messages; 0: all
	// MaxBlocked limits the wait for a broker that takes no messages. Meanwhile all messages that were
	// read are held. 0: no limit.
	MaxBlocked time.Duration

	Recorder Recorder // nil in a dry run
	Progress Progress
}

// Recorder records what a Change is about to do, and then how much of it was done: an [operate.Log].
type Recorder interface {
	Begin(ctx context.Context, by operate.By, action operate.Action, items []string) (row uuid.UUID, err error)
	Finish(ctx context.Context, row uuid.UUID, done int) error
}

// Result is what a Change did, also if it ended with an error.
type Result struct {
	Changed []DeadLetter // in a dry run: what would be changed
	Refused []Refusal    // what was chosen and not changed
}

// Refusal is why a message was not changed.
type Refusal struct {
	DeadLetter DeadLetter
	Why        string
}

// A batch is held in memory, because its messages are changed after all of them are recorded.
const (
	maxBatch      = 100
	maxBatchBytes = 8 << 20
)

// Run changes the chosen messages that are in q. If the decision cannot be recorded, it changes
// nothing more. If the broker does not take a copy, it stops, and the messages after it stay
// unchanged.
func (c Change) Run(ctx context.Context, q Queue) (Result, error) {
	r := run{Change: c, queue: q, left: c.remaining()}
	err := q.Connect(ctx, func(ctx context.Context, s Session) (err error) {
		if r.session = s; c.Action == operate.Replay && !c.DryRun {
			if r.publisher, err = s.NewPublisher(1); err != nil {
				return err
			}
		}
		return q.browse(s, func(b Browser) error {
			r.browser = b
			if err := each(ctx, b, c.Limit, c.Progress, func(f Found) (bool, error) { return r.visit(ctx, f) }); err != nil {
				return err
			}
			return r.changeBatch(ctx)
		})
	})
	return r.Result, err
}

// remaining returns a copy of Keys that the run may count down.
func (c Change) remaining() map[string]int {
	if c.Keys == nil {
		return nil
	}
	left := make(map[string]int, len(c.Keys))
	for key, n := range c.Keys {
		if n > 0 {
			left[key] = n
		}
	}
	return left
}

// Remaining returns the keys that a run with these Keys did not find. Somebody else may hold their
// messages, or has changed them.
func Remaining(keys map[string]int, done Result) map[string]int {
	left := Change{Keys: keys}.remaining()
	found := func(l DeadLetter) {
		if left[l.Key]--; left[l.Key] <= 0 {
			delete(left, l.Key)
		}
	}
	for _, l := range done.Changed {
		found(l)
	}
	for _, r := range done.Refused {
		found(r.DeadLetter)
	}
	return left
}

// run is one run of a Change.
type run struct {
	Change
	Result
	queue     Queue
	session   Session
	browser   Browser
	publisher Publisher
	left      map[string]int // how many messages of each key are still to be found; nil: the filter chooses

	batch      []Found
	batchBytes int
}

// visit collects chosen messages for the next batch. With keys, it stops when all are found.
func (r *run) visit(ctx context.Context, f Found) (goOn bool, err error) {
	if !r.chosen(f.DeadLetter) {
		return true, nil
	}
	goOn = r.left == nil || len(r.left) > 0
	if why := r.refuse(f.DeadLetter); why != "" {
		r.Refused = append(r.Refused, Refusal{f.DeadLetter, why})
		return goOn, nil
	}
	if r.DryRun {
		r.Changed = append(r.Changed, f.DeadLetter)
		return goOn, nil
	}
	r.batch = append(r.batch, f)
	r.batchBytes += f.Size
	if len(r.batch) == maxBatch || r.batchBytes >= maxBatchBytes {
		err = r.changeBatch(ctx)
	}
	return goOn, err
}

func (r *run) chosen(l DeadLetter) bool {
	if r.left == nil {
		return r.Filter.Matches(l)
	}
	n, chosen := r.left[l.Key]
	if n == 1 {
		delete(r.left, l.Key)
	} else if chosen {
		r.left[l.Key] = n - 1
	}
	return chosen
}

func (r *run) refuse(l DeadLetter) (why string) {
	if r.Action != operate.Replay || l.Code != consumer.OutsideDedupeWindow || r.Force {
		return ""
	}
	return "is older than INBOX_RETENTION, so it may have had its effect; --force sends it nevertheless"
}

// finishTimeout bounds the end of a record. It is written also if the run is cancelled.
const finishTimeout = 10 * time.Second

// ErrNotRecorded says why a batch was not changed.
var ErrNotRecorded = errors.New("the decision cannot be recorded, so none of these messages was changed")

// changeBatch records the batch, and then changes its messages. It holds all of them, so nobody
// else changes one in between. The record ends if it is known what became of each message.
// Otherwise it says that at most these were changed.
func (r *run) changeBatch(ctx context.Context) error {
	batch := r.batch
	if r.batch, r.batchBytes = nil, 0; len(batch) == 0 {
		return nil
	}
	items := make([]string, 0, len(batch))
	for _, f := range batch {
		items = append(items, f.Item())
	}
	row, err := r.Recorder.Begin(ctx, r.By, r.Action, items)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotRecorded, err)
	}
	crashpoint.At("deadletter.recorded")
	done, err := r.changeAll(ctx, batch)
	if _, unclear := errors.AsType[unclearError](err); unclear {
		return err
	}
	if removed := r.browser.Removed(); removed != nil {
		return errors.Join(err, fmt.Errorf("the broker did not confirm that the messages are removed: %w", removed))
	}
	crashpoint.At("deadletter.changed")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	if failed := r.Recorder.Finish(ctx, row, done); failed != nil {
		err = errors.Join(err, fmt.Errorf("the end of the decision cannot be recorded: %w", failed))
	}
	return err
}

// changeAll returns how many messages it has changed, also with an error.
func (r *run) changeAll(ctx context.Context, batch []Found) (done int, err error) {
	for _, f := range batch {
		if ctx.Err() != nil {
			return done, context.Cause(ctx)
		}
		apply := r.discard
		if r.Action == operate.Replay {
			apply = r.replay
		}
		why, err := apply(ctx, f)
		if err != nil {
			return done, err
		}
		if why != "" {
			r.Refused = append(r.Refused, Refusal{f.DeadLetter, why})
			continue
		}
		done++
		r.Changed = append(r.Changed, f.DeadLetter)
	}
	return done, nil
}

// unclearError is an error after which it is not known whether a message was changed.
type unclearError struct{ error }

// Unwrap returns the cause.
func (e unclearError) Unwrap() error { return e.error }
