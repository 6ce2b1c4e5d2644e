package dlq_test

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"example.com/transactional-outbox/outbox/operate"
)

// recorder keeps the records of decisions in memory.
type recorder struct {
	Begun func(items []string) error // called before a record; may be nil

	mu   sync.Mutex
	Rows []row
}

// row is one record.
type row struct {
	ID uuid.UUID
	operate.By
	Action operate.Action
	Items  []string
	Done   int // -1 before its end
}

// Begin adds a record.
func (r *recorder) Begin(ctx context.Context, by operate.By, action operate.Action, items []string) (uuid.UUID, error) {
	if err := ctx.Err(); err != nil {
		return uuid.Nil, err
	}
	if r.Begun != nil {
		if err := r.Begun(items); err != nil {
			return uuid.Nil, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	added := row{ID: uuid.New(), By: by, Action: action, Items: items, Done: -1}
	r.Rows = append(r.Rows, added)
	return added.ID, nil
}

// Finish ends a record.
func (r *recorder) Finish(ctx context.Context, id uuid.UUID, done int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.Rows {
		if r.Rows[i].ID == id {
			r.Rows[i].Done = done
		}
	}
	return nil
}
