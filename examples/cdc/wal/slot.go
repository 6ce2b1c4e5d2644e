package wal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ErrStandby means that another reader has the slot.
var ErrStandby = errors.New("another reader has the slot")

// Setup makes the publication, and then the slot. The owner of the tables may call it before the
// relay runs with fewer rights. The publication must be made before the slot.
func Setup(ctx context.Context, c Config) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return explain(err)
	}
	defer closeConn(conn) //nolint:contextcheck // cleanup must also run after ctx has ended
	if err := c.checkPublication(ctx, conn); err != nil {
		return err
	}
	return NewReader(c, nil, nil).prepareSlot(ctx, conn)
}

// Drop drops the slot and the publication. Without a reader, a slot holds the log for ever.
func Drop(ctx context.Context, c Config) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return explain(err)
	}
	defer closeConn(conn) //nolint:contextcheck // cleanup must also run after ctx has ended
	if err := c.dropSlot(ctx, conn); err != nil {
		return fmt.Errorf("dropping the slot %s: %w", c.Slot, err)
	}
	if _, err := query(ctx, conn, "DROP PUBLICATION IF EXISTS "+identifier(c.Publication)); err != nil {
		return fmt.Errorf("dropping the publication %s: %w", c.Publication, err)
	}
	return nil
}

// A slot is in use for a moment after its reader has ended. The server notices that within
// milliseconds, or later if it is busy.
const (
	dropPause    = 100 * time.Millisecond
	dropAttempts = 50
)

// dropSlot tries again while the slot is in use.
func (c Config) dropSlot(ctx context.Context, conn *pgconn.PgConn) (err error) {
	for range dropAttempts {
		_, err = query(ctx, conn, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = `+literal(c.Slot))
		if !hasCode(err, "55006") {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(dropPause):
		}
	}
	return err
}

// prepare checks the server and the publication, and makes the slot if there is none.
func (r *Reader) prepare(ctx context.Context, conn *pgconn.PgConn) error {
	if err := r.config.checkPublication(ctx, conn); err != nil {
		return err
	}
	return r.prepareSlot(ctx, conn)
}

func (r *Reader) prepareSlot(ctx context.Context, conn *pgconn.PgConn) error {
	rows, err := query(ctx, conn, `SELECT plugin, coalesce(database, ''), active, coalesce(wal_status, ''), database = current_database()
		FROM pg_replication_slots WHERE slot_name = `+literal(r.config.Slot))
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return r.create(ctx, conn)
	}
	switch plugin, database, active, status, ours := rows[0][0], rows[0][1], rows[0][2], rows[0][3], rows[0][4]; {
	case plugin != "pgoutput" || ours != "t":
		return &setupError{fmt.Sprintf("the slot %s is for %q in the database %q: set CDC_SLOT to another name", r.config.Slot, plugin, database)}
	case active == "t":
		return ErrStandby
	case status == "lost":
		r.metrics.lost()
		slog.ErrorContext(ctx, "the slot is lost: it held more than max_slot_wal_keep_size. Making a new one; the "+
			"poll of the table publishes the events. Raise max_slot_wal_keep_size, or find out why the reader was away",
			"slot", r.config.Slot)
		return r.recreate(ctx, conn)
	}
	return nil
}

// recreate replaces a slot that cannot be read. The events that the new slot does not have are in
// the queue.
func (r *Reader) recreate(ctx context.Context, conn *pgconn.PgConn) error {
	if err := pglogrepl.DropReplicationSlot(ctx, conn, r.config.Slot, pglogrepl.DropReplicationSlotOptions{}); err != nil {
		return fmt.Errorf("dropping the slot: %w", err)
	}
	return r.create(ctx, conn)
}

// slowCreate is how long create may take before a log line says why it waits.
const slowCreate = 2 * time.Second

// create makes the slot. It waits for the end of each transaction that is writing now, in all
// databases of the server.
func (r *Reader) create(ctx context.Context, conn *pgconn.PgConn) error {
	notice := time.AfterFunc(slowCreate, func() {
		slog.WarnContext(ctx, "making the slot waits for the open transactions of this server to end; the poll of the table publishes meanwhile",
			"slot", r.config.Slot, "see", "SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL")
	})
	defer notice.Stop()
	_, err := pglogrepl.CreateReplicationSlot(ctx, conn, r.config.Slot, "pgoutput",
		pglogrepl.CreateReplicationSlotOptions{Mode: pglogrepl.LogicalReplication, SnapshotAction: "NOEXPORT_SNAPSHOT"})
	if hasCode(err, "42710") { // duplicate_object: another reader was faster
		return ErrStandby
	}
	if err == nil {
		slog.InfoContext(ctx, "made the slot", "slot", r.config.Slot)
	}
	return err
}

// query runs SQL as text, and returns the columns as text.
func query(ctx context.Context, conn *pgconn.PgConn, sql string) (rows [][]string, err error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	for _, result := range results {
		for _, row := range result.Rows {
			columns := make([]string, 0, len(row))
			for _, column := range row {
				columns = append(columns, string(column))
			}
			rows = append(rows, columns)
		}
	}
	return rows, err
}

func closeConn(conn *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

func hasCode(err error, code string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == code
}

func identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
