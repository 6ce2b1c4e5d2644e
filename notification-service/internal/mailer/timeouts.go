package mailer

import "time"

// The minimum timeouts of a client: RFC 5321, section 4.5.3.2. A shorter one for the dot makes
// duplicates, because the server has the whole e-mail.
const (
	greetingTimeout = 5 * time.Minute  // 4.5.3.2.1
	mailTimeout     = 5 * time.Minute  // 4.5.3.2.2
	rcptTimeout     = 5 * time.Minute  // 4.5.3.2.3
	dataTimeout     = 2 * time.Minute  // 4.5.3.2.4
	blockTimeout    = 3 * time.Minute  // 4.5.3.2.5
	dotTimeout      = 10 * time.Minute // 4.5.3.2.6
)

// The RFC has no values for these.
const (
	dialTimeout = 30 * time.Second
	// resetTimeout is for an idle connection. It is short, because a new one can replace it.
	resetTimeout = 10 * time.Second
	// quitTimeout is short: no e-mail depends on QUIT.
	quitTimeout = time.Second
	// beforeDotTimeout is for all steps before the final dot together. Giving up there repeats
	// no e-mail.
	beforeDotTimeout = 5 * time.Minute
)

// How long a connection is kept. Some servers close an idle one after a minute. Some limit the
// e-mails of a connection, often to 100.
const (
	maxIdle   = 30 * time.Second
	maxAge    = 5 * time.Minute
	maxEmails = 100
)

// limits has these values as fields, so that a test can shorten them.
type limits struct {
	dial, greeting, mail, rcpt, data, block, dot time.Duration
	beforeDot, reset, quit                       time.Duration
	idle, age                                    time.Duration
	emails                                       int
}

func defaultLimits() limits {
	return limits{
		dial: dialTimeout, greeting: greetingTimeout, mail: mailTimeout, rcpt: rcptTimeout,
		data: dataTimeout, block: blockTimeout, dot: dotTimeout,
		beforeDot: beforeDotTimeout, reset: resetTimeout, quit: quitTimeout,
		idle: maxIdle, age: maxAge, emails: maxEmails,
	}
}
