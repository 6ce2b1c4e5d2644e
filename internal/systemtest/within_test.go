package systemtest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/mail"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	amqp "github.com/rabbitmq/amqp091-go"
)

// soon bounds the wait for what should take a second or two. It is shorter than patience,
// so that a test which fails does so before its own bound.
const soon = 30 * time.Second

// within asks until something holds, and reports whether it did in time.
func within(limit time.Duration, holds func() bool) bool {
	ask := time.NewTicker(50 * time.Millisecond)
	defer ask.Stop()
	for deadline := time.Now().Add(limit); !holds(); <-ask.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// wantCount wants a query to count to n in time, and reports whether it did.
func (s *system) wantCount(limit time.Duration, db *pgxpool.Pool, n int, query string) bool {
	s.Helper()
	got := 0
	if within(limit, func() bool { got = one[int](s, db, query); return got == n }) {
		return true
	}
	s.Errorf("after %s: %s counts to %d, want %d", limit, query, got, n)
	return false
}

// messagesIn counts what is in a queue, and in no hand.
func (s *system) messagesIn(queue string) (n int) {
	s.Helper()
	s.at(func(c *amqp.Channel) error {
		q, err := c.QueueDeclarePassive(queue, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	return n
}

// wantDeadLetters wants so many dead letters in time, and leaves them where they are.
func (s *system) wantDeadLetters(limit time.Duration, n int) {
	s.Helper()
	if got := 0; !within(limit, func() bool { got = s.messagesIn(deadLetters); return got == n }) {
		s.Errorf("after %s: %d dead letters, want %d", limit, got, n)
	}
}

// wantNothingLeft waits until no queue holds a message, out or not, but for the dead
// letters; so nothing can cause an e-mail any more.
func (s *system) wantNothingLeft() {
	s.Helper()
	var left string
	empty := func() bool {
		left = ""
		for _, q := range s.list("queues", "name", "messages_ready", "messages_unacknowledged") {
			if q["name"] != deadLetters && (q["messages_ready"] != 0.0 || q["messages_unacknowledged"] != 0.0) {
				left += fmt.Sprint(q)
			}
		}
		return left == ""
	}
	if !within(soon, empty) {
		s.Errorf("the queues still hold %s", left)
	}
}

// wantOneCopyEach is wantOneLetterEach with one line for all that is wrong.
func (s *system) wantOneCopyEach(messages ...amqp.Publishing) {
	s.Helper()
	letters, repeated, missing, most := s.mail.letters(), 0, 0, 0
	for _, m := range messages {
		got := len(letters["<"+m.MessageId+"@example.com>"])
		most = max(most, got)
		if got > 1 {
			repeated++
		} else if got == 0 {
			missing++
		}
	}
	if repeated > 0 || missing > 0 || len(letters) != len(messages) {
		s.Errorf("of %d e-mails %d were repeated (up to %d copies) and %d are missing; e-mails of %d messages came",
			len(messages), repeated, most, missing, len(letters))
	}
}

// series sums all series of a metric; there may be none.
func (s *service) series(name string) (sum float64, found bool) {
	s.Helper()
	response, err := http.Get("http://" + s.ops() + "/metrics")
	must(s.T, err)
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		sample, value, _ := strings.Cut(lines.Text(), " ")
		if sample == name || strings.HasPrefix(sample, name+"{") {
			number, err := strconv.ParseFloat(value, 64)
			must(s.T, err)
			sum, found = sum+number, true
		}
	}
	return sum, found
}

// wantWaitingCopies wants the service to say that copies wait, and where they go: retry or dlq.
func (s *service) wantWaitingCopies(to string, least float64) {
	s.Helper()
	series := fmt.Sprintf("consumer_copies_waiting{to=%q}", to)
	got, found := 0.0, false
	if !within(soon/3, func() bool { got, found = s.series(series); return got >= least }) {
		s.Errorf("%s is %v (there: %t), want at least %v", series, got, found, least)
	}
}

// wantEndIn20s asks the service to end, and wants it to do so in time.
func (s *service) wantEndIn20s() {
	s.Helper()
	const limit, patient = 20 * time.Second, 35 * time.Second
	began := time.Now()
	s.signal(syscall.SIGTERM)
	s.waitAtMost(patient)
	took := time.Since(began).Round(time.Millisecond)
	s.Logf("it ended with %d after %s", s.command.ProcessState.ExitCode(), took)
	if took > limit {
		s.Errorf("it ended after %s, want at most %s", took, limit)
	}
}

// readLetter reads an e-mail as the server gets it.
func readLetter(to string, r io.Reader) (letter, error) {
	message, err := mail.ReadMessage(r)
	if err != nil {
		return letter{}, err
	}
	text, err := io.ReadAll(message.Body)
	return letter{
		messageID: message.Header.Get("Message-ID"), to: to, subject: message.Header.Get("Subject"), text: string(text),
	}, err
}

// trusted starts notification-service and lets it send one e-mail: from then on it takes
// more than one message at a time.
func (s *system) trusted(settings ...string) (running *service, first amqp.Publishing) {
	s.Helper()
	running, first = s.consuming(settings...), orderOf("first@example.com")
	s.emit(first)
	s.awaitCount(s.notifications, 1, sent)
	return running, first
}

// malformed is a message that nobody can read.
func malformed() amqp.Publishing {
	m := orderOf("nobody@example.com")
	m.Body = []byte("no JSON")
	return m
}
