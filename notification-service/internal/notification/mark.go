package notification

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/internal/postgres"
)

// mark is an outcome that the database must know.
type mark struct {
	kind   Status
	id     uuid.UUID
	reason string
	ctx    context.Context //nolint:containedctx // of the trace to which the measured time belongs
}

const (
	markSent     = Sent
	markPending  = Pending
	markRejected = Rejected
)

// mark waits until m is written, together with what others mark at the same time.
func (s *Service) mark(ctx context.Context, m mark) error {
	written, err := s.marks.Do(context.WithoutCancel(ctx), m)
	return errors.Join(err, written)
}

// markSent waits until the database knows that the e-mail was accepted. It goes on after any
// error until ctx ends: to give up would be to send the e-mail again.
func (s *Service) markSent(ctx context.Context, id uuid.UUID) error {
	again := func(err error, in time.Duration) {
		slog.ErrorContext(ctx, "cannot mark an e-mail sent, trying again", "message_id", id, "in", in.String(), "error", err)
	}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		return struct{}{}, s.mark(ctx, mark{kind: markSent, id: id, ctx: ctx})
	}, backoff.WithMaxElapsedTime(0), backoff.WithNotify(again))
	return err
}

// writeMarks writes a batch. As long as the database is away it tries again: what is known
// to be sent stays known here.
func (s *Service) writeMarks(ctx context.Context, marks []mark) []error {
	errs := make([]error, len(marks))
	err := s.writeUntilDone(ctx, marks)
	for i := range marks {
		if err != nil && len(marks) > 1 && !postgres.Unavailable(err) {
			errs[i] = s.writeUntilDone(ctx, marks[i:i+1]) // one of them is at fault: not the others
		} else {
			errs[i] = err
		}
	}
	return errs
}

// Pauses between two attempts are short: when the database is back, what this process
// knows must be there before a lease is taken over.
const (
	firstMarkPause   = 50 * time.Millisecond
	longestMarkPause = 500 * time.Millisecond
	markTimeout      = 5 * time.Second // for one attempt: a silent connection is given up
)

func (s *Service) writeUntilDone(ctx context.Context, marks []mark) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstMarkPause, longestMarkPause
	warned := false
	again := func(err error, _ time.Duration) {
		if !warned {
			slog.WarnContext(ctx, "cannot mark e-mails, trying again until it is done", "emails", len(marks), "error", err)
			warned = true
		}
	}
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		err := s.write(ctx, marks)
		if err != nil && !postgres.Unavailable(err) {
			err = backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithBackOff(pause), backoff.WithMaxElapsedTime(0), backoff.WithNotify(again))
	if err != nil {
		return fmt.Errorf("marking %d e-mails: %w", len(marks), err)
	}
	return nil
}

// An outcome is written whoever has the lease by now, except the step back to pending:
//
//   - that an e-mail is sent is a fact, and to write it saves a repeat;
//   - a rejection never overwrites that fact;
//   - only the holder of the lease may give it back.
//
// ORDER BY is the order in which everybody locks several notifications.
const (
	markSentSQL = `
WITH accepted AS MATERIALIZED (
  SELECT message_id FROM notifications
  WHERE message_id = ANY (cast(@ids AS uuid[])) AND status <> 'sent'
  ORDER BY message_id FOR UPDATE
)
UPDATE notifications n
SET status = 'sent', sent_at = now(), lease_token = NULL, lease_until = NULL, failure_reason = NULL
FROM accepted a WHERE n.message_id = a.message_id
RETURNING n.message_id,
  coalesce(extract(epoch FROM now() - cast(n.order_details->>'occurred_at' AS timestamptz))::float8, 'NaN') AS age`

	markRejectedSQL = `
WITH refused AS MATERIALIZED (
  SELECT n.message_id, r.reason FROM notifications n
  JOIN unnest(cast(@ids AS uuid[]), cast(@reasons AS text[])) AS r (id, reason) ON r.id = n.message_id
  WHERE n.status <> 'sent' ORDER BY n.message_id FOR UPDATE OF n
)
UPDATE notifications n
SET status = 'rejected', lease_token = NULL, lease_until = NULL, failure_reason = r.reason
FROM refused r WHERE n.message_id = r.message_id`

	markPendingSQL = `
WITH mine AS MATERIALIZED (
  SELECT message_id FROM notifications
  WHERE message_id = ANY (cast(@ids AS uuid[])) AND lease_token = @token
  ORDER BY message_id FOR UPDATE
)
UPDATE notifications n SET status = 'pending', lease_token = NULL, lease_until = NULL
FROM mine m WHERE n.message_id = m.message_id`
)

// aged is how old an event was when its e-mail was sent, by the databases' clocks: NaN if
// the event does not say when it occurred.
type aged struct {
	MessageID uuid.UUID
	Age       float64
}

func (s *Service) write(ctx context.Context, marks []mark) error {
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	var ages []aged
	err := s.db.InTx(ctx, func(tx *postgres.Tx) error {
		sent, rejected, pending := ofKind(marks, markSent), ofKind(marks, markRejected), ofKind(marks, markPending)
		return errors.Join(
			ifAny(sent, func() error {
				return postgres.Collect(tx, &ages, "marking e-mails sent", markSentSQL,
					postgres.Args{"ids": bytesOf(idsOf(sent))}, pgx.RowToStructByName[aged])
			}),
			ifAny(rejected, func() error {
				return tx.Write("marking e-mails rejected", markRejectedSQL,
					postgres.Args{"ids": bytesOf(idsOf(rejected)), "reasons": reasonsOf(rejected)})
			}),
			ifAny(pending, func() error {
				return tx.Write("giving leases back", markPendingSQL,
					postgres.Args{"ids": bytesOf(idsOf(pending)), "token": s.token})
			}),
		)
	})
	if err != nil {
		return err
	}
	for _, m := range marks {
		s.leases.remove(m.id)
	}
	s.measure(marks, ages)
	return nil
}

func (s *Service) measure(marks []mark, ages []aged) {
	known := map[uuid.UUID]float64{}
	for _, a := range ages {
		known[a.MessageID] = a.Age
	}
	for _, m := range ofKind(marks, markSent) {
		if age, ok := known[m.id]; ok {
			s.metrics.observe(m.ctx, age)
		}
	}
}

func ofKind(marks []mark, kind Status) (those []mark) {
	for _, m := range marks {
		if m.kind == kind {
			those = append(those, m)
		}
	}
	return those
}

func ifAny(marks []mark, write func() error) error {
	if len(marks) == 0 {
		return nil
	}
	return write()
}

func idsOf(marks []mark) (ids []uuid.UUID) {
	for _, m := range marks {
		ids = append(ids, m.id)
	}
	return ids
}

func reasonsOf(marks []mark) (reasons []string) {
	for _, m := range marks {
		reasons = append(reasons, m.reason)
	}
	return reasons
}

// maxReason is the width of failure_reason, in bytes.
const maxReason = 1024

func shorten(reason string) string {
	reason = strings.ReplaceAll(reason, "\x00", "")
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}
