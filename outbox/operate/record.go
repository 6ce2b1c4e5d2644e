package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/outbox/internal/store"
)

// Via is by which means somebody decides: a word of 1 to 20 bytes. A program that decides has a
// word of its own.
type Via string

// The means of this library.
const (
	CLI  Via = "cli"
	Page Via = "page"
)

// Text returns the way in words for people.
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
	Pause     Action = "pause"
	Resume    Action = "resume"
	Find      Action = "find" // an operator has looked for a text in the payloads
)

// By says who decides, by which means, and by which filter the items are chosen. [NewDecision]
// makes one.
type By struct {
	Decision uuid.UUID // all batches of one decision have the same
	Operator string    // the name of the person; required
	Via      Via       // required
	Filter   string    // required; as the command's flags say it, such as "--topic order.created"
	// Once is the id of a form, or [uuid.Nil]. A second decision with the same id is refused. So a form
	// that is sent twice decides once.
	Once uuid.UUID `db:"-"`
}

// ByIDs is the filter of a decision about items that were chosen one by one.
const ByIDs = "ids"

// NewDecision returns a new decision of an operator. The operator and the filter must not be empty:
// for items that were chosen one by one, the filter is [ByIDs]. It panics only if the machine
// has no random numbers.
func NewDecision(operator string, via Via, filter string) By {
	return By{Decision: uuid.Must(uuid.NewV7()), Operator: operator, Via: via, Filter: filter}
}

// check returns an error that names the first field that the table would refuse.
func (by By) check() error {
	switch {
	case by.Operator == "":
		return errors.New("By.Operator is empty")
	case by.Via == "" || len(clean(string(by.Via))) > maxVia:
		return fmt.Errorf("By.Via is %q, but must have 1 to %d bytes", by.Via, maxVia)
	case by.Filter == "":
		return errors.New("By.Filter is empty: use ByIDs if the items were chosen one by one")
	}
	return nil
}

const recordSQL = `
INSERT INTO operator_decisions (id, decision, operator, via, action, filter, items, finished_at, done)
SELECT cast(@id AS uuid), cast(@decision AS uuid), @operator, @via, @action, @filter, items,
       CASE WHEN finished THEN now() END, CASE WHEN finished THEN cardinality(items) END
FROM (SELECT ` + itemsSQL + ` AS items, cast(@finished AS boolean) AS finished) chosen`

// itemsSQL is the items as an array.
const itemsSQL = `ARRAY(SELECT value FROM json_array_elements_text(cast(cast(@items AS text) AS json)))`

// ErrDecided means that this decision was recorded before: a form was sent twice. Nothing was
// changed.
var ErrDecided = errors.New("this was decided already")

// record records in tx that by does action to all items. Finished says that it is done with the
// commit. Without items it records nothing.
func record(ctx context.Context, tx pgx.Tx, by By, action Action, items []string, finished bool) (id uuid.UUID, err error) {
	if len(items) == 0 && action != Find {
		return uuid.Nil, nil
	}
	if err = by.check(); err == nil {
		id, err = uuid.NewV7()
	}
	if by.Once != uuid.Nil {
		id = by.Once
	}
	if err == nil {
		_, err = tx.Exec(ctx, recordSQL, args{
			"id": id.String(), "decision": by.Decision.String(), "operator": fit(by.Operator, maxOperator), "via": clean(string(by.Via)),
			"action": string(action), "filter": fit(by.Filter, maxFilter), "items": itemsText(items), "finished": finished,
		})
	}
	if store.SQLState(err) == "23505" { // unique_violation
		err = ErrDecided
	}
	if err != nil {
		return uuid.Nil, fmt.Errorf("recording the operator's decision: %w", err)
	}
	return id, nil
}

// The tables' limits, in bytes.
const (
	maxOperator = 200
	maxVia      = 20
	maxTopic    = 511 // destination/topic
	maxFilter   = 4096
	maxReason   = 1024
)

// fit shortens text to a number of bytes, and makes it storable.
func fit(text string, limit int) string {
	text = clean(text)
	return strings.ToValidUTF8(text[:min(limit, len(text))], "") // the cut may be inside a character
}

// itemsText is the items as one text of JSON. Message ids come from any publisher, so they may have
// what PostgreSQL cannot store.
func itemsText(items []string) string {
	all := make([]string, 0, len(items))
	for _, item := range items {
		all = append(all, clean(item))
	}
	text, _ := json.Marshal(all) // strings always have a text
	return string(text)
}

// clean replaces what is not UTF-8, and the zero bytes, which PostgreSQL cannot store.
func clean(text string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", "\uFFFD"), "\uFFFD")
}
