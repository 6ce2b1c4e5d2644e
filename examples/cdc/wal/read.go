package wal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// retryPause is the pause between two tries to get the slot.
const retryPause = time.Second

// statusInterval is how often the reader tells the server its position, and asks for the server's.
const statusInterval = time.Second

// Run reads the slot until ctx ends. While it cannot, it says why and tries again each second.
func (r *Reader) Run(ctx context.Context) error {
	for {
		err := r.readOnce(ctx)
		r.metrics.reading(false)
		if ctx.Err() != nil {
			return nil
		}
		r.logOnce(ctx, err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryPause):
		}
	}
}

// logOnce does not log a reason again until another one has come.
func (r *Reader) logOnce(ctx context.Context, err error) {
	text := err.Error()
	if text == r.logged {
		return
	}
	r.logged = text
	if _, setup := errors.AsType[*setupError](err); setup {
		slog.ErrorContext(ctx, "the log cannot be read; the poll of the table publishes meanwhile", "error", err)
	} else if errors.Is(err, ErrStandby) {
		slog.InfoContext(ctx, "standby: another reader has the slot", "slot", r.config.Slot)
	} else {
		slog.WarnContext(ctx, "reading the log ended, trying again", "error", err)
	}
}

func (r *Reader) readOnce(ctx context.Context) error {
	conn, err := r.config.connect(ctx)
	if err != nil {
		return explain(err)
	}
	defer closeConn(conn) //nolint:contextcheck // cleanup must also run after ctx has ended
	if err := r.prepare(ctx, conn); err != nil {
		return err
	}
	r.sink.Restart()
	// Position 0 means: from what was acknowledged last. Another position would skip the events
	// between the two.
	err = pglogrepl.StartReplication(ctx, conn, r.config.Slot, 0, pglogrepl.StartReplicationOptions{
		Mode: pglogrepl.LogicalReplication, PluginArgs: []string{"proto_version '1'", "publication_names " + literal(identifier(r.config.Publication))},
	})
	if hasCode(err, "55006") { // object_in_use
		return ErrStandby
	}
	if err != nil {
		return err
	}
	slog.InfoContext(ctx, "reading the log", "slot", r.config.Slot)
	r.logged = ""
	r.metrics.reading(true)
	return r.afterRead(ctx, r.read(ctx, conn))
}

// afterRead makes a new slot if somebody made the publication after the slot. For changes before
// the publication, the server answers that there is no such publication.
func (r *Reader) afterRead(ctx context.Context, err error) error {
	if !hasCode(err, "42704") { // undefined_object
		return err
	}
	conn, connectErr := r.config.connect(ctx)
	if connectErr != nil {
		return errors.Join(err, connectErr)
	}
	defer closeConn(conn) //nolint:contextcheck // cleanup must also run after ctx has ended
	if publicationErr := r.config.checkPublication(ctx, conn); publicationErr != nil {
		return publicationErr
	}
	slog.WarnContext(ctx, "the publication was made after the slot: making a new slot", "slot", r.config.Slot, "error", err)
	return errors.Join(err, r.recreate(ctx, conn))
}

// read passes on events until the connection or ctx ends. Then it acknowledges what is settled.
func (r *Reader) read(ctx context.Context, conn *pgconn.PgConn) error {
	d := newDecoder()
	// It uses deadlines of the socket: a context for each message would cost more than the message.
	defer context.AfterFunc(ctx, func() { _ = conn.Conn().SetReadDeadline(time.Now()) })()
	status, heard := time.Time{}, time.Now()
	for ctx.Err() == nil {
		if time.Since(status) >= statusInterval {
			if err := r.sendStatus(ctx, conn); err != nil {
				return err
			}
			status = time.Now()
			if err := conn.Conn().SetReadDeadline(status.Add(statusInterval)); err != nil {
				return err
			}
		}
		if r.sink.Full() {
			r.awaitSpace(ctx)
			heard = time.Now() // it was not listening
			continue
		}
		message, err := receive(conn) //nolint:contextcheck // the end of ctx sets the deadline
		if err != nil {
			return err
		}
		if message != nil {
			heard = time.Now()
		} else if time.Since(heard) > r.config.Timeout {
			return fmt.Errorf("the server has sent nothing for %s", r.config.Timeout)
		}
		if err := r.handle(d, message); err != nil {
			return err
		}
	}
	return r.sendStatus(context.WithoutCancel(ctx), conn)
}

func (r *Reader) awaitSpace(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-r.sink.Space():
	case <-time.After(statusInterval): // the next status is due: without it the server would end the connection
	}
}

// receive returns nil if there is no message until the deadline.
func receive(conn *pgconn.PgConn) (pgproto3.BackendMessage, error) {
	message, err := conn.ReceiveMessage(context.Background())
	if pgconn.Timeout(err) {
		return nil, nil
	}
	return message, err
}

func (r *Reader) handle(d *decoder, message pgproto3.BackendMessage) error {
	switch m := message.(type) {
	case *pgproto3.ErrorResponse:
		return pgconn.ErrorResponseToPgError(m)
	case *pgproto3.CopyDone:
		return errors.New("the server ended the replication")
	case *pgproto3.CopyData:
		return r.handleCopy(d, m.Data)
	}
	return nil
}

func (r *Reader) handleCopy(d *decoder, data []byte) error {
	switch data[0] {
	case pglogrepl.PrimaryKeepaliveMessageByteID:
		alive, err := pglogrepl.ParsePrimaryKeepaliveMessage(data[1:])
		if err == nil && !d.inside {
			r.sink.Reached(alive.ServerWALEnd)
		}
		return err
	case pglogrepl.XLogDataByteID:
		log, err := pglogrepl.ParseXLogData(data[1:])
		if err != nil {
			return err
		}
		commit, err := d.decode(log.WALData)
		if err == nil && commit != nil {
			r.sink.Add(d.events, commit.TransactionEndLSN)
		}
		return err
	}
	return nil
}

// sendStatus acknowledges what is settled, and asks for a keepalive, which says how far the server
// has read. Otherwise a slot would keep the log of other tables while there are no new events: as
// long as others write, the server sends no keepalive by itself.
func (r *Reader) sendStatus(ctx context.Context, conn *pgconn.PgConn) error {
	return pglogrepl.SendStandbyStatusUpdate(ctx, conn, pglogrepl.StandbyStatusUpdate{
		WALWritePosition: r.sink.Position(), ReplyRequested: true,
	})
}
