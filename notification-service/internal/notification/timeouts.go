package notification

import "time"

// What a client should wait for at least: RFC 5321, section 4.5.3.2. It says of the last
// one that impatience here makes duplicates, because the server has the whole e-mail.
const (
	greetingTimeout = 5 * time.Minute  // 4.5.3.2.1
	mailTimeout     = 5 * time.Minute  // 4.5.3.2.2
	rcptTimeout     = 5 * time.Minute  // 4.5.3.2.3
	dataTimeout     = 2 * time.Minute  // 4.5.3.2.4
	blockTimeout    = 3 * time.Minute  // 4.5.3.2.5
	dotTimeout      = 10 * time.Minute // 4.5.3.2.6
)

// The RFC does not name these.
const (
	dialTimeout = 30 * time.Second
	// resetTimeout is for a kept connection. A fresh one replaces it, so it need not wait.
	resetTimeout = 10 * time.Second
	// quitTimeout is short: no e-mail depends on QUIT.
	quitTimeout = time.Second
	// beforeDotTimeout is for everything before the final dot together. Giving up there
	// repeats nothing.
	beforeDotTimeout = 5 * time.Minute
	// longestSend is how long Send may take once it has a connection, or may open one.
	longestSend = beforeDotTimeout + dotTimeout
)

// How long a connection is kept. Servers close an idle one themselves, some after a
// minute, and some limit the e-mails of a connection to 100 (Postfix's clients do so).
const (
	maxIdle   = 30 * time.Second
	maxAge    = 5 * time.Minute
	maxEmails = 100
)

// limits are the above as fields, so that a test can have them shorter.
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
