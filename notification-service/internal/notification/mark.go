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

// mark is the outcome of one e-mail. It must be written to the database.
type mark struct {
	status Status
	id     uuid.UUID
	reason string
	ctx    context.Context //nolint:containedctx // of the trace that the measured time belongs to
}

// mark waits until m is written, together with the other marks of the same moment.
func (s *Service) mark(ctx context.Context, m mark) error {
	written, err := s.marks.Do(context.WithoutCancel(ctx), m)
	return errors.Join(err, written)
}

// markUntilDone waits until the database knows m. It tries again after any error until ctx ends.
// If it gave up, the e-mail or the dead letter would be sent again.
func (s *Service) markUntilDone(ctx context.Context, m mark) error {
	again := once(func(err error) {
		slog.ErrorContext(ctx, "cannot mark an e-mail, trying again until it is done", "message_id", m.id, "as", m.status, "error", err)
	})
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		return struct{}{}, s.mark(ctx, m)
	}, backoff.WithBackOff(markPauses()), backoff.WithMaxElapsedTime(0), backoff.WithNotify(again))
	return err
}

// writeMarks writes a batch. While the database is away it tries again, so that no e-mail that
// was sent is forgotten. After another error it writes each mark alone.
func (s *Service) writeMarks(ctx context.Context, marks []mark) []error {
	errs, err := s.writeUntilDone(ctx, marks)
	if err == nil {
		return errs
	}
	errs = make([]error, len(marks))
	for i := range marks {
		errs[i] = err
		if len(marks) > 1 && !postgres.Unavailable(err) { // only one of them may be at fault
			var alone []error
			if alone, errs[i] = s.writeUntilDone(ctx, marks[i:i+1]); errs[i] == nil {
				errs[i] = alone[0]
			}
		}
	}
	return errs
}

// Pauses between two attempts are short. When the database is back, the marks must be written
// before another process takes over a lease. And at a shutdown, a row that was locked must be
// marked before the process ends.
const (
	firstMarkPause   = 50 * time.Millisecond
	longestMarkPause = 500 * time.Millisecond
	markTimeout      = 5 * time.Second // for one attempt, because a connection may be silent
)

func markPauses() *backoff.ExponentialBackOff {
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstMarkPause, longestMarkPause
	return pauses
}

// once logs only the first of many errors in a row.
func once(log func(error)) backoff.Notify {
	logged := false
	return func(err error, _ time.Duration) {
		if !logged {
			log(err)
			logged = true
		}
	}
}

func (s *Service) writeUntilDone(ctx context.Context, marks []mark) ([]error, error) {
	again := once(func(err error) {
		slog.WarnContext(ctx, "cannot mark e-mails, trying again until it is done", "emails", len(marks), "error", err)
	})
	errs, err := backoff.Retry(ctx, func() ([]error, error) {
		errs, err := s.write(ctx, marks)
		if err != nil && !postgres.Unavailable(err) {
			err = backoff.Permanent(err)
		}
		return errs, err
	}, backoff.WithBackOff(markPauses()), backoff.WithMaxElapsedTime(0), backoff.WithNotify(again))
	if err != nil {
		return nil, fmt.Errorf("marking %d e-mails: %w", len(marks), err)
	}
	return errs, nil
}

// Who may write which mark:
//
//   - Any process may write sent. It is a fact, and writing it prevents a repeat.
//   - Any process may write rejected. It never overwrites sent.
//   - Only the lease's holder may write pending.
//
// SKIP LOCKED, because one locked row must not delay the others. The statements for sent and
// rejected return the rows that they skipped.
const (
	markSentSQL = `
WITH open AS MATERIALIZED (
  SELECT message_id FROM notifications WHERE message_id = ANY (cast(@ids AS uuid[])) AND status <> 'sent'
), accepted AS MATERIALIZED (
  SELECT message_id FROM notifications
  WHERE message_id = ANY (ARRAY(SELECT message_id FROM open)) AND status <> 'sent'
  FOR UPDATE SKIP LOCKED
), marked AS (
  UPDATE notifications n
  SET status = 'sent', sent_at = now(), lease_token = NULL, lease_until = NULL, failure_reason = NULL
  FROM accepted a WHERE n.message_id = a.message_id
  RETURNING n.message_id,
    coalesce(extract(epoch FROM now() - cast(n.order_details->>'occurred_at' AS timestamptz))::float8, 'NaN') AS age
)
SELECT message_id, m.age IS NULL AS locked, coalesce(m.age, 'NaN') AS age
FROM open LEFT JOIN marked m USING (message_id)`

	markRejectedSQL = `
WITH open AS MATERIALIZED (
  SELECT message_id FROM notifications WHERE message_id = ANY (cast(@ids AS uuid[])) AND status NOT IN ('sent', 'rejected')
), refused AS MATERIALIZED (
  SELECT n.message_id, r.reason FROM notifications n
  JOIN unnest(cast(@ids AS uuid[]), cast(@reasons AS text[])) AS r (id, reason) ON r.id = n.message_id
  WHERE n.message_id = ANY (ARRAY(SELECT message_id FROM open)) AND n.status <> 'sent' FOR UPDATE OF n SKIP LOCKED
), marked AS (
  UPDATE notifications n
  SET status = 'rejected', lease_token = NULL, lease_until = NULL, failure_reason = r.reason
  FROM refused r WHERE n.message_id = r.message_id
  RETURNING n.message_id
)
SELECT message_id, m.message_id IS NULL AS locked, float8 'NaN' AS age
FROM open LEFT JOIN marked m USING (message_id)`

	markPendingSQL = `
WITH mine AS MATERIALIZED (
  SELECT message_id FROM notifications
  WHERE message_id = ANY (cast(@ids AS uuid[])) AND lease_token = @token
  FOR UPDATE SKIP LOCKED
)
UPDATE notifications n SET status = 'pending', lease_token = NULL, lease_until = NULL
FROM mine m WHERE n.message_id = m.message_id`
)

// marked is a row that a mark found.
type marked struct {
	MessageID uuid.UUID
	Locked    bool    // another transaction has locked it, so it was skipped
	Age       float64 // of its event in seconds, by the databases' clocks; NaN if unknown
}

// errLocked says that another transaction has locked the row of a notification.
var errLocked = errors.New("the notification's row is locked")

// write writes the marks in one transaction, and returns an error for each of them.
func (s *Service) write(ctx context.Context, marks []mark) ([]error, error) {
	s.rows.Lock()
	defer s.rows.Unlock()
	ctx, cancel := context.WithTimeout(ctx, markTimeout)
	defer cancel()
	var sentRows, rejectedRows []marked
	err := s.db.InTx(ctx, func(tx pgx.Tx) (err error) {
		if err := postgres.UseIndexes(ctx, tx); err != nil {
			return err
		}
		if sentRows, err = writeSent(ctx, tx, withStatus(marks, Sent)); err != nil {
			return fmt.Errorf("marking e-mails sent: %w", err)
		}
		if rejectedRows, err = writeRejected(ctx, tx, withStatus(marks, Rejected)); err != nil {
			return fmt.Errorf("marking e-mails rejected: %w", err)
		}
		return s.writePending(ctx, tx, withStatus(marks, Pending))
	})
	if err != nil {
		return nil, err
	}
	return s.markResults(marks, append(sentRows, rejectedRows...)), nil
}

func writeSent(ctx context.Context, tx pgx.Tx, marks []mark) ([]marked, error) {
	if len(marks) == 0 {
		return nil, nil
	}
	return postgres.Read(ctx, tx, markSentSQL, postgres.Args{"ids": bytesOf(idsOf(marks))}, pgx.RowToStructByName[marked])
}

func writeRejected(ctx context.Context, tx pgx.Tx, marks []mark) ([]marked, error) {
	if len(marks) == 0 {
		return nil, nil
	}
	args := postgres.Args{"ids": bytesOf(idsOf(marks)), "reasons": reasonsOf(marks)}
	return postgres.Read(ctx, tx, markRejectedSQL, args, pgx.RowToStructByName[marked])
}

func (s *Service) writePending(ctx context.Context, tx pgx.Tx, marks []mark) error {
	if len(marks) == 0 {
		return nil
	}
	args := postgres.Args{"ids": bytesOf(idsOf(marks)), "token": s.token}
	return postgres.Write(ctx, tx, "giving leases back", markPendingSQL, args)
}

// markResults returns an error for each mark that was not written.
func (s *Service) markResults(marks []mark, rows []marked) []error {
	found := map[uuid.UUID]marked{}
	for _, row := range rows {
		found[row.MessageID] = row
	}
	errs := make([]error, len(marks))
	for i, m := range marks {
		row, known := found[m.id]
		if known && row.Locked && m.status != Pending {
			errs[i] = errLocked
			continue
		}
		s.leases.remove(m.id)
		if known && m.status == Sent {
			s.metrics.observe(m.ctx, row.Age)
		}
	}
	return errs
}

func withStatus(marks []mark, status Status) (found []mark) {
	for _, m := range marks {
		if m.status == status {
			found = append(found, m)
		}
	}
	return found
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
