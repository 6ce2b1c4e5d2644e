package checker

import "time"

// Allowance is what the injected faults permit. The zero value permits nothing.
type Allowance struct {
	Duplicates int // copies on the tap after the first copy of each event
	// Mails is the number of repeated e-mails. It excludes repeats after the server cut the
	// connection. MailsEach limits the repeats of one e-mail: a process that dies repeats several
	// e-mails, each of them once.
	Mails, MailsEach int
	// Refusals says that the broker refuses or returns events, or gives no answer on a connection that
	// stays open. All are in retry_count. A lost connection is not.
	Refusals bool
	// TapGap says that the tap was unbound for a while. An event that another queue received
	// counts as routed then.
	TapGap bool
	// Refused has the recipients that the mail server has refused for good: true if it does so to the
	// end, false if it accepts them later. Their e-mails may be failed events.
	Refused map[string]bool
	// Lease is the length of the relays' leases.
	Lease time.Duration
	// Malformed are the malformed messages of the scenario, by id. They must become dead letters.
	Malformed map[string]Message
}
