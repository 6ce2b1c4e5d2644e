package page

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/outbox/operate"
)

// What the overview shows at most.
const (
	countLimit  = 10_000 // larger numbers are estimates
	shownTopics = 20
	lateSeconds = 10 // the oldest due event is late. An alert waits longer
)

// overview shows what is wrong now, and the numbers of events. What needs no database, it shows
// also without one.
func (p *Page) overview(ctx context.Context, r request) (view, error) {
	var problems []Problem
	if p.Health != nil {
		if err := p.Health(); err != nil {
			chapter := p.Runbook.Relay
			if errors.Is(err, outbox.ErrNoDatabase) {
				chapter = p.Runbook.Database
			}
			problems = append(problems, Problem{
				Text: sentence(err.Error()), Runbook: chapter, Links: []Link{{"the " + p.Event + "s that wait", listOf(operate.Pending, "")}},
			})
		}
	}
	of, numbers, err := p.ofDatabase(ctx, r)
	if problems = append(problems, of...); err != nil {
		p.Logger.ErrorContext(ctx, "the operators' page cannot read the outbox", "error", err)
		problems = append(problems, Problem{Text: "The database does not answer this page. The log says why.", Runbook: p.Runbook.Database})
	}
	if p.Problems != nil {
		problems = append(problems, p.Problems(ctx)...)
	}
	title := "All is well"
	if len(problems) > 0 {
		title = counted(len(problems), false, "problem")
	}
	return view{Title: title, Body: "overview", Reloads: true, Data: map[string]any{
		"Problems": problems, "Numbers": numbers, "Relay": p.Health != nil,
	}}, nil
}

// ofDatabase returns the problems of the outbox itself, and its numbers.
func (p *Page) ofDatabase(ctx context.Context, r request) (problems []Problem, numbers []figure, err error) {
	b, err := p.operator.Backlog(ctx, countLimit)
	if err != nil {
		return nil, nil, err
	}
	now, err := p.operator.Now(ctx)
	if err != nil {
		return nil, nil, err
	}
	problems, err = p.pausedTopics(ctx, r)
	if err != nil {
		return nil, nil, err
	}
	failures, err := p.failures(ctx, r)
	if problems = append(problems, failures...); b.OldestDue > lateSeconds {
		problems = append(problems, Problem{
			Text:  "The oldest " + p.Event + " that is due has not been sent yet.",
			Since: now.Add(-seconds(b.OldestDue)), Runbook: p.Runbook.Late,
			Links: []Link{{"the oldest " + p.Event + "s that wait", listOf(operate.Pending, "") + "&order=" + oldest}},
		})
	}
	since := "none"
	if b.OldestUnfinished > 0 {
		since = span(seconds(b.OldestUnfinished))
	}
	return problems, []figure{
		{"pending", about(b.Pending), listOf(operate.Pending, "")},
		{"of these, paused", about(b.Paused), "topics"},
		{"being sent", about(b.InProgress), listOf(operate.InProgress, "")},
		{"the oldest that is not done, due for", since, listOf(operate.Pending, "") + "&order=" + oldest},
		{"failed", about(b.Failed), listOf(operate.Failed, "")},
		{"done", "list", listOf(operate.Published, "")},
	}, err
}

// figure is a number with the list of what it counts.
type figure struct{ Name, Text, To string }

// about is a number that may be an estimate.
func about(n int) string {
	if n >= countLimit {
		return "about " + number(n)
	}
	return number(n)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// sentence begins with a capital letter and ends with a full stop.
func sentence(text string) string { return masked(capital(text)) + "." }

// pausedTopics are those that the relay or an operator has paused.
func (p *Page) pausedTopics(ctx context.Context, r request) (problems []Problem, err error) {
	topics, err := p.operator.Topics(ctx, "", shownTopics+1)
	for i, t := range topics {
		if i == shownTopics {
			problems = append(problems, Problem{
				Text: "More " + p.Topic + "s are paused.", Links: []Link{{"all paused " + p.Topic + "s", "topics"}}, Runbook: p.Runbook.Paused,
			})
			break
		}
		by := "because " + p.Destination + " does not take its " + p.Event + "s"
		if t.Operator != "" {
			by = "by " + t.Operator
		}
		waits := counted(t.Waiting, t.More, p.Event) + " wait."
		if t.Waiting == 1 {
			waits = "1 " + p.Event + " waits."
		}
		link := Link{"its " + p.Event + "s", listOf(operate.Pending, t.Topic)}
		text := fmt.Sprintf("The %s %s is paused %s.", p.Topic, t.Topic, by)
		if t.Topic == operate.EveryTopic {
			text, waits, link = "Every "+p.Topic+" is paused "+by+".", "Nothing is sent.", Link{"all that wait", "list?status=" + operate.Pending}
		}
		links := []Link{link}
		if r.decides {
			links = append(links, Link{"resume it", pageOf("decide", "action", operate.Resume, "topic", t.Topic)})
		}
		problems = append(problems, Problem{
			Text: text + " " + waits, Since: t.Since, Error: masked(t.Reason), Links: links, Runbook: p.Runbook.Paused,
		})
	}
	return problems, err
}

// failures are the failed events by reason and topic.
func (p *Page) failures(ctx context.Context, r request) (problems []Problem, err error) {
	groups, more, err := p.operator.Failures(ctx)
	for _, g := range groups {
		of := []any{"topic", g.Topic, "reason", g.FailureCode}
		links := []Link{{"these " + p.Event + "s", pageOf("list", append(of, "status", operate.Failed)...)}}
		if r.decides && g.FailureCode != "" {
			links = append(links, Link{"replay them", pageOf("decide", append(of, "action", operate.Replay)...)})
		}
		problems = append(problems, Problem{
			Text:  fmt.Sprintf("%s of the %s %s failed: %s.", counted(g.Count, g.More, p.Event), p.Topic, g.Topic, reasonOf(g.FailureCode)),
			Since: g.OldestSince, Error: masked(g.Reason), Runbook: p.Runbook.Failed, Links: links,
		})
	}
	if more {
		problems = append(problems, Problem{Text: "There are more groups of failed " + p.Event + "s.", Links: []Link{{"all that failed", "list"}}, Runbook: p.Runbook.Failed})
	}
	return problems, err
}

func reasonOf(code string) string {
	if code == "" {
		return "the reason is unknown"
	}
	return code
}
