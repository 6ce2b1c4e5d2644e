package mailer

import (
	"context"
	"time"
)

// Mailer sends e-mails. Its errors say whether the server or the e-mail is at fault.
type Mailer interface {
	Send(ctx context.Context, m Email) error
	// Probe reports whether the server answers, without sending an e-mail.
	Probe(ctx context.Context) error
	// Close closes the idle connections.
	Close()
}

// Email is one e-mail to one person.
type Email struct {
	ID      string // the Message-ID, the same in every repeat
	Date    time.Time
	From    string
	To      string
	Subject string
	Text    string
	HTML    string
}
