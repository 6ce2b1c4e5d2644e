package page

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"example.com/transactional-outbox/internal/postgres"
)

const (
	sampleInterval = time.Second
	countTimeout   = 2 * time.Second // less than [QueryTimeout], so that the overview can say what is missing
)

// Numbers sets the function that counts. The frame calls it at most once a second, and only while
// somebody looks. Its context ends after countTimeout.
func (p *Page) Numbers(count func(context.Context) (Numbers, error)) { p.numbers.ask = count }

// overview shows the diagram.
func (p *Page) overview(ctx context.Context, _ *Request) (Result, error) {
	return Show("Overview", p.diagram(ctx)), nil
}

// diagram returns the numbers, or why there are none.
func (p *Page) diagram(ctx context.Context) Diagram {
	numbers, err := p.numbers.get(ctx)
	numbers.Service = p.config.Service
	if err != nil {
		numbers.Error = "no numbers: " + reason(err)
	}
	return Diagram(numbers)
}

// reason is why there are no numbers, for people.
func reason(err error) string {
	if shown, ok := errors.AsType[*Error](err); ok {
		return shown.Text
	}
	slog.Warn("no numbers for the page", "error", err)
	if postgres.Unavailable(err) {
		return "the database does not answer, or it needs too long"
	}
	return "the log says why"
}
