package outbox

import (
	"database/sql/driver"
	"unicode/utf8"

	"github.com/google/uuid"
)

// list is one array parameter. gorm would spread a plain slice over a parameter
// for each element, and so make a new statement for each length.
type list[T any] []T

// Value hands the slice to pgx as it is; pgx encodes it as an array.
func (l list[T]) Value() (driver.Value, error) { return []T(l), nil }

// uuids are bytes: pgx takes a uuid.UUID for a text that has to be parsed.
func uuids(ids []uuid.UUID) list[[16]byte] {
	all := make(list[[16]byte], 0, len(ids))
	for _, id := range ids {
		all = append(all, id)
	}
	return all
}

// columns turns rows into one array for each column, as unnest wants them.
func columns(setbacks []Setback) map[string]any {
	ids, delays, spends := list[[16]byte]{}, list[float64]{}, list[int]{}
	codes, reasons := list[string]{}, list[string]{}
	for _, s := range setbacks {
		ids = append(ids, s.ID)
		delays = append(delays, s.Delay.Seconds())
		spends = append(spends, count(s.Spends))
		codes = append(codes, s.Code)
		reasons = append(reasons, truncate(s.Reason))
	}
	return map[string]any{"ids": ids, "delays": delays, "spends": spends, "codes": codes, "reasons": reasons}
}

func count(spends bool) int {
	if spends {
		return 1
	}
	return 0
}

// maxReason is the width of failure_reason, in bytes.
const maxReason = 1024

// truncate makes any text fit the column: valid UTF-8, no NUL (which PostgreSQL
// refuses), cut on a rune boundary. A reason must never make its update fail.
func truncate(reason string) string {
	clean := make([]byte, 0, min(len(reason), maxReason))
	for _, r := range reason {
		if r == 0 {
			continue
		}
		if len(clean)+utf8.RuneLen(r) > maxReason {
			break
		}
		clean = utf8.AppendRune(clean, r)
	}
	return string(clean)
}
