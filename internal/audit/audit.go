// Package audit records what operators decide: who decided, by a command or on the page, about
// which events or messages, and when. Each service has the table operator_decisions in its database.
//
// A decision that changes the database calls [Record] in the transaction of the change. So there is
// no change without its row, and no row without its change. A decision about what is in the broker
// calls [Log.Begin] before the first message is touched, and [Log.Finish] afterwards. If the process
// dies in between, the row says that at most its items were changed.
package audit

import (
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"example.com/transactional-outbox/internal/postgres"
)

// Via is how an operator decides.
type Via string

// The ways to decide.
const (
	CLI  Via = "cli"
	Page Via = "page"
)

// Text returns the way for people.
func (v Via) Text() string {
	if v == CLI {
		return "command line"
	}
	return string(v)
}

// Action is what an operator decides.
type Action string

// The actions.
const (
	Replay    Action = "replay"
	Discard   Action = "discard"
	Republish Action = "republish"
)

// By says who decides, by which means, and by which filter the items are chosen.
type By struct {
	Decision uuid.UUID // all batches of one decision have the same
	Operator string
	Via      Via
	Filter   string // as the command's flags say it, such as "--event-key order.created"
}

// ByIDs is the filter of a decision about items that were chosen one by one.
const ByIDs = "ids"

// New returns a new decision of an operator. It panics only if the machine has no random numbers.
func New(operator string, via Via, filter string) By {
	return By{Decision: uuid.Must(uuid.NewV7()), Operator: operator, Via: via, Filter: filter}
}

const insertSQL = `
INSERT INTO operator_decisions (id, decision, operator, via, action, filter, items, finished_at, done)
VALUES (@id, @decision, @operator, @via, @action, @filter, @items,
        CASE WHEN @finished THEN now() END, CASE WHEN @finished THEN cardinality(cast(@items AS text[])) END)`

// Record records in tx that by has done action to all items. Without items it records nothing.
func Record(tx *postgres.Tx, by By, action Action, items []string) error {
	_, err := insert(tx, by, action, items, true)
	return err
}

func insert(tx *postgres.Tx, by By, action Action, items []string, finished bool) (id uuid.UUID, err error) {
	if len(items) == 0 {
		return uuid.Nil, nil
	}
	if id, err = uuid.NewV7(); err != nil {
		return uuid.Nil, err
	}
	return id, tx.Write("recording the operator's decision", insertSQL, postgres.Args{
		"id": id, "decision": by.Decision, "operator": fit(by.Operator, maxOperator), "via": string(by.Via),
		"action": string(action), "filter": fit(by.Filter, maxFilter), "items": storable(items), "finished": finished,
	})
}

// The table's limits, in bytes.
const (
	maxOperator = 200
	maxFilter   = 4096
)

// fit shortens text to a number of bytes, and makes it storable.
func fit(text string, limit int) string {
	text = clean(text)
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// storable returns the items as PostgreSQL can store them. Message ids come from any publisher.
func storable(items []string) []string {
	all := make([]string, 0, len(items))
	for _, item := range items {
		all = append(all, clean(item))
	}
	return all
}

// clean replaces what is not UTF-8, and the zero bytes, which PostgreSQL cannot store.
func clean(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}

// IDs returns ids as items.
func IDs(ids []uuid.UUID) []string {
	items := make([]string, 0, len(ids))
	for _, id := range ids {
		items = append(items, id.String())
	}
	return items
}
