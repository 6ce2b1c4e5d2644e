package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"example.com/transactional-outbox/internal/cli"
	"example.com/transactional-outbox/internal/page"
	"example.com/transactional-outbox/notification-service/internal/deadletter"
	"example.com/transactional-outbox/notification-service/internal/notification"
	"example.com/transactional-outbox/outbox/operate"
)

const (
	listAge    = 5 * time.Second  // how old a list may be: reading it again would hold the queue
	previewAge = 30 * time.Second // how old the list of a preview may be; changed messages are found out later
	listSize   = 50               // rows of one page
	maxGroups  = 50
	// readWait is how long a request waits for the list. It is shorter than [page.QueryTimeout].
	readWait = 2 * time.Second
	// reload is when the page asks again, while the queue is still being read.
	reload = 2 * time.Second
)

// letters are the pages about dead letters.
type letters struct {
	page    *page.Page
	reader  *deadletter.Reader
	queue   deadletter.Queue
	log     *operate.Log
	history notification.History
}

// snapshot returns what was in the queue. Its errors are for the user.
func (l letters) snapshot(ctx context.Context, maxAge time.Duration) (deadletter.Snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	found, err := l.reader.List(ctx, maxAge)
	return found, forUser(err)
}

// forUser returns an error that is shown, except for [deadletter.ErrReading] and
// [deadletter.ErrGone].
func forUser(err error) error {
	if err == nil || errors.Is(err, deadletter.ErrReading) || errors.Is(err, deadletter.ErrGone) {
		return err
	}
	return &page.Error{
		Status: http.StatusServiceUnavailable, Cause: err,
		Text: "The dead letters are in the broker, and they cannot be read now. " + reason(err),
	}
}

// problem returns the text of an error of snapshot.
func problem(err error) string {
	if errors.Is(err, deadletter.ErrReading) {
		return "The queue is still being read. Load this page again in some seconds."
	}
	return page.Reason(err)
}

// stillReading is shown while a long queue is read.
func stillReading() page.Result {
	result := page.Show("Dead letters", page.Message{
		Title: "The queue is being read.",
		Text: fmt.Sprintf("It takes some seconds, because up to %d messages are read. This page loads itself again. "+
			"If it does so for minutes, the broker is slow, or does not answer.", deadletter.MaxRead),
	})
	result.Refresh = reload
	return result
}

func (l letters) list(ctx context.Context, r *page.Request) (page.Result, error) {
	form := readFilter(r.URL.Query())
	snapshot, err := l.snapshot(ctx, listAge)
	if errors.Is(err, deadletter.ErrReading) {
		return stillReading(), nil
	}
	if err != nil {
		return page.Result{}, err
	}
	groups := deadletter.Groups(plain(snapshot.Letters))
	if form.Problem() != nil {
		result := page.Show("Dead letters", form.part(groups))
		result.Status = http.StatusUnprocessableEntity
		return result, nil
	}
	chosen := matching(snapshot.Letters, form.filter)
	table, pager := l.table(r, chosen, form)
	return page.Show("Dead letters", about(snapshot), groupsPart(groups), form.part(groups), table, pager), nil
}

func plain(entries []deadletter.Entry) []deadletter.DeadLetter {
	all := make([]deadletter.DeadLetter, 0, len(entries))
	for _, e := range entries {
		all = append(all, e.DeadLetter)
	}
	return all
}

// matching returns what a filter chooses.
func matching(entries []deadletter.Entry, filter deadletter.Filter) (chosen []deadletter.Entry) {
	for _, e := range entries {
		if filter.Matches(e.DeadLetter) {
			chosen = append(chosen, e)
		}
	}
	return chosen
}

// about says what the list is, and what it is not.
func about(s deadletter.Snapshot) page.Heading {
	note := fmt.Sprintf("%s UTC: %s. %s", s.At.UTC().Format(time.TimeOnly), cli.Noun("message").Count(len(s.Letters)), unread(s))
	return page.Heading{Text: "What is in the queue", Note: note + " To read the queue, this page takes the messages and gives them back. " +
		"While it reads, no other client sees them, and this page does not see what others hold. It reads again after some seconds at the earliest."}
}

// unread says why a list has fewer messages than the queue had, or "".
func unread(s deadletter.Snapshot) string {
	switch n := len(s.Letters); {
	case s.Total <= n:
		return ""
	case n == deadletter.MaxRead:
		return fmt.Sprintf("These are the first %d of %d messages. Decide about some of them to see the others.", n, s.Total)
	default:
		return fmt.Sprintf("%d of %d messages were not read, because another client had taken them. Load this page again in some seconds.",
			s.Total-n, s.Total)
	}
}

func groupsPart(groups []deadletter.Group) page.Groups {
	part := page.Groups{Title: "By reason", Empty: "There are no dead letters."}
	for i, g := range groups {
		if i == maxGroups {
			part.List = append(part.List, page.Group{Text: "and other reasons", Count: int64(countRest(groups[i:]))})
			break
		}
		note := page.Shorten(withoutAddresses(g.Reason))
		if g.Reasons > 1 {
			note += fmt.Sprintf(" (and %d other texts)", g.Reasons-1)
		}
		if g.Oldest != nil {
			note += fmt.Sprintf(" · oldest %s UTC", g.Oldest.UTC().Format(time.DateTime))
		}
		to := readFilter(url.Values{fieldReason: {g.Code}}).Path("")
		part.List = append(part.List, page.Group{Text: g.Code, Count: int64(g.Count), To: to, Note: note, Level: page.Warn})
	}
	return part
}

func countRest(groups []deadletter.Group) (n int) {
	for _, g := range groups {
		n += g.Count
	}
	return n
}

// line is a row of the table: equal dead letters are one.
type line struct {
	deadletter.Entry
	times int
}

// lines returns the newest failure first. The order does not depend on that of the queue, which may
// change with each reading.
func lines(entries []deadletter.Entry) []line {
	places, all := map[string]int{}, make([]line, 0, len(entries))
	for _, e := range entries {
		place, known := places[e.Key]
		if !known {
			place = len(all)
			places[e.Key], all = place, append(all, line{Entry: e})
		}
		all[place].times++
	}
	slices.SortFunc(all, func(a, b line) int { return strings.Compare(b.cursor(), a.cursor()) })
	return all
}

// cursor names the place of a row. Rows without a time come last.
func (l line) cursor() string {
	at := ""
	if l.FailedAt != nil {
		at = l.FailedAt.UTC().Format("2006-01-02T15:04:05.000000000")
	}
	return at + "_" + l.Key
}

// table returns the rows after the cursor of the request.
func (l letters) table(r *page.Request, chosen []deadletter.Entry, form filterForm) (page.Table, page.Pager) {
	rows, pager := lines(chosen), page.Pager{}
	pager.Note = matchText(len(chosen))
	if after := r.URL.Query().Get(page.FieldAfter); after != "" {
		pager.First = form.Path("")
		rows = rows[firstAfter(rows, after):]
	}
	if len(rows) > listSize {
		rows = rows[:listSize]
		pager.Next = form.Path(rows[listSize-1].cursor())
	}
	table := lettersTable("Dead letters, the newest failure first", rows)
	table.Empty = "No dead letter matches."
	if r.User.May(page.Operate) {
		table.Choose = &page.Choose{Post: "/dead/preview", Actions: actions, Filter: form.hidden()}
		if !form.filter.Empty() {
			table.Choose.All = fmt.Sprintf("all %d that match", len(chosen))
		}
	}
	return table, pager
}

// firstAfter returns the first row that comes after a cursor, also if the row of the cursor is gone.
func firstAfter(rows []line, cursor string) int {
	i := slices.IndexFunc(rows, func(l line) bool { return l.cursor() < cursor })
	if i < 0 {
		return len(rows)
	}
	return i
}

var actions = []page.Action{{Name: string(operate.Replay), Text: "Replay"}, {Name: string(operate.Discard), Text: "Discard", Danger: true}}

func lettersTable(caption string, rows []line) page.Table {
	table := page.Table{
		Caption: caption, Columns: []string{"Message", "Routing key", "Code", "Failed at", "Retries", "Bytes", "Equal", "Reason"},
	}
	for _, l := range rows {
		failed := page.Text("unknown")
		if l.FailedAt != nil {
			failed = page.Moment(*l.FailedAt)
		}
		name := l.ID
		if name == "" {
			name = "(no id)"
		}
		table.Rows = append(table.Rows, page.Row{ID: l.Key, Name: name, Cells: []page.Value{
			page.CodeLink(name, "/dead/"+l.Key), page.Code(l.RoutingKey), page.Code(l.Code), failed, page.Text(fmt.Sprint(l.Retries)),
			page.Text(fmt.Sprint(l.Size)), page.Text(fmt.Sprint(l.times)), page.Text(page.Shorten(withoutAddresses(l.Reason))),
		}})
	}
	return table
}

func matchText(n int) string {
	if n == 1 {
		return "1 message matches"
	}
	return fmt.Sprintf("%d messages match", n)
}
