// Package mailer sends an e-mail to the mail server, and says what became of it. It does not know
// what the e-mail is about, or whether it was sent before: see package notification.
//
// # When the server has the e-mail
//
// [SMTP] sends each e-mail in a mail transaction of its own. The dot ends the text:
//
//	MAIL ─► RCPT ─► DATA ─► the text ─► the dot ─► accepted
//	└─ the server does not have it ─┘   └─ it may have it
//
// Four outcomes of [SMTP.Send] are possible:
//
//   - nil: the server has accepted the e-mail.
//   - An error before the dot: the server does not have it.
//   - A 4yz or 5yz reply to the dot: the server does not have it.
//   - No valid reply to the dot, or the context ended first: the server may have it. If the caller
//     sends it again, the customer may get it twice, with the same Message-ID.
//
// Send itself repeats nothing after the dot.
//
// # Timeouts
//
// Each step has the timeout of RFC 5321, section 4.5.3.2. In addition, all steps before the dot
// together must end within 5 minutes: giving up there repeats no e-mail. The dot has its 10 minutes
// for itself. A server that sends its reply byte by byte gets no more time. The end of the context
// ends any step, and the wait for a free connection.
//
// # When a connection is kept
//
// A connection is kept for the next e-mail, also if the server has refused this one. It is closed:
//
//   - if it broke: the server closed it, replied with 421, or gave no valid reply;
//   - if the context ended during a step;
//   - after 30 seconds without an e-mail, after 5 minutes, or after 100 e-mails and probes;
//   - by [SMTP.Close], and after it.
//
// The server may have given up a kept connection. So the steps are repeated once over a new
// connection if the kept one breaks before the dot, or fails at RSET or MAIL. A connection that is
// new is not replaced.
//
// # Kinds of error
//
// The consumer distinguishes errors by their methods:
//
//   - [RefusedError] and [BadRecipientError] have DeadLetterCode: this e-mail is never sent. Its
//     message becomes a dead letter.
//   - [UnavailableError] has Dependency, which returns [MailServer]: the server accepts no e-mail
//     now. The consumer closes its gate, and counts no try. OwnFault is the error of an e-mail that
//     fails so again and again while others are accepted.
//   - [UnclearError] has Dependency and MessageError: the server or this e-mail is at fault. If the
//     e-mail fails again after the server has accepted another one, MessageError is its error.
//   - [DeferredError] has Deferred: the server accepts this e-mail later. It is tried again, and
//     the try is not counted.
//   - Any other error: this e-mail failed now, and the try is counted.
//
// The table of replies is in classify.go. The recipient's address is in the text of no error,
// because it does not belong in logs and traces.
package mailer
