package operate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/internal/store"
)

// EveryTopic in place of a topic pauses all of them.
const EveryTopic = store.AllTopics // "*"

// ErrNotPaused means that a topic is not paused, or that its pause is over already.
var ErrNotPaused = errors.New("it is not paused")

// pauseSQL makes a pause of the relay the operator's: it does not end by itself any more.
const pauseSQL = `
INSERT INTO outbox_topics AS t (topic, until, pause, reason, operator) VALUES (@topic, 'infinity', 0, @reason, @operator)
ON CONFLICT (topic) DO UPDATE SET (since, until, pause, reason, operator, resumed) =
  (CASE WHEN t.resumed THEN clock_timestamp() ELSE t.since END, 'infinity', 0, excluded.reason, excluded.operator, false)
RETURNING topic`

// Pause stops the relays from sending the events of a topic until an operator resumes it, or of
// [EveryTopic]. An event that is being sent is not called back. The topic need not have events, and
// no relay needs to run: after a restore of the database, pause every topic before the first start.
// In the same transaction Pause records who decided that.
func (o *Operator) Pause(ctx context.Context, by By, topic, reason string) error {
	if topic == "" || len(topic) > maxTopic {
		return fmt.Errorf("a topic has 1 to %d bytes, not %d", maxTopic, len(topic))
	}
	a := args{"topic": topic, "reason": fit(reason, maxReason), "operator": fit(by.Operator, maxOperator)}
	return o.changeTopic(ctx, by, Pause, topic, pauseSQL, a)
}

// resumeSQL deletes nothing: the claims make the halted events due, some at a time, and then delete
// the row.
const resumeSQL = `UPDATE outbox_topics SET resumed = true WHERE topic = @topic AND NOT resumed RETURNING topic`

// resumeSeenSQL does so only if nobody else has paused the topic since. The relay changes the reason
// of its own pauses.
const resumeSeenSQL = `
UPDATE outbox_topics SET resumed = true
WHERE topic = @topic AND NOT resumed AND coalesce(operator, '') = @operator AND (operator IS NULL OR reason = @reason)
RETURNING topic`

// Resume ends the pause of a topic, whether an operator or the relay has paused it. Its events
// follow as the relays have room for them. In the same transaction it records who decided that. If
// the topic is not paused, it returns [ErrNotPaused].
func (o *Operator) Resume(ctx context.Context, by By, topic string) error {
	return o.changeTopic(ctx, by, Resume, topic, resumeSQL, args{"topic": topic})
}

// ResumeSeen is Resume for a pause as [Operator.PausedTopic] has shown it. If another operator has
// paused the topic since, it changes nothing, and returns [ErrNotPaused].
func (o *Operator) ResumeSeen(ctx context.Context, by By, p PausedTopic) error {
	return o.changeTopic(ctx, by, Resume, p.Topic, resumeSeenSQL, args{"topic": p.Topic, "operator": p.Operator, "reason": p.Reason})
}

func (o *Operator) changeTopic(ctx context.Context, by By, action Action, topic, change string, a args) error {
	err := inTx(ctx, o.store, fmt.Sprintf("%s of the topic %q", action, topic), func(tx pgx.Tx) error {
		if _, err := record(ctx, tx, by, action, []string{topic}, true); err != nil {
			return err
		}
		changed, err := collect(ctx, tx, change, a, pgx.RowTo[string])
		_, err = only(changed, err, ErrNotPaused)
		return err
	})
	if err == nil {
		o.Logger.InfoContext(ctx, "topic "+string(action)+"d", "topic", topic, "by", by.Operator) //nolint:sloglint // one of two
	}
	return err
}

// PausedTopic is a topic whose events wait.
type PausedTopic struct {
	Topic    string // EveryTopic: all of them
	Since    time.Time
	Until    *time.Time // then the relay tries one of its events; nil: an operator resumes it
	Reason   string
	Operator string // who paused it; "": the relay
	Waiting  int    // how many of its events were due and are held back
	More     bool   // Waiting is a limit, and there are more
}

const topicsSQL = `
SELECT topic, since, CASE WHEN until < 'infinity' THEN until END AS until, reason, coalesce(operator, '') AS operator,
       least(n, @most)::int AS waiting, n > @most AS more
FROM (SELECT * FROM outbox_topics WHERE NOT resumed AND topic > @after AND cast(@topic AS text) IN ('', topic) ORDER BY topic LIMIT @limit) t,
     LATERAL (SELECT count(*) AS n FROM (SELECT FROM outbox_queue WHERE halted AND topic = t.topic
                                         ORDER BY topic, retry_count, seq LIMIT @most + 1) h) counted
ORDER BY topic`

// Topics returns at most limit paused topics that come after a topic, in their order; "" comes
// before all. It counts at most 10,000 events of each.
func (o *Operator) Topics(ctx context.Context, after string, limit int) ([]PausedTopic, error) {
	return o.topics(ctx, args{"most": 10_000, "after": after, "topic": "", "limit": limit})
}

// PausedTopic returns a topic that is paused, or [ErrNotPaused].
func (o *Operator) PausedTopic(ctx context.Context, topic string) (PausedTopic, error) {
	found, err := o.topics(ctx, args{"most": 10_000, "after": "", "topic": topic, "limit": 1})
	return only(found, err, ErrNotPaused)
}

func (o *Operator) topics(ctx context.Context, a args) ([]PausedTopic, error) {
	return read(ctx, o.store, "reading the paused topics", topicsSQL, a, pgx.RowToStructByName[PausedTopic])
}
