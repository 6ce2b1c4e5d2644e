package deadletter

import (
	"cmp"
	"slices"
	"time"
)

// Group has the dead letters of one code.
type Group struct {
	Code           string
	Count          int
	Reason         string     // the most frequent one
	Reasons        int        // how many different ones
	Oldest, Newest *time.Time // of the failures; nil if none has a time
}

// Groups groups dead letters by their code. The largest group comes first.
func Groups(letters []DeadLetter) []Group {
	groups, reasons := map[string]*Group{}, map[string]map[string]int{}
	for _, l := range letters {
		g := groups[l.Code]
		if g == nil {
			g = &Group{Code: l.Code}
			groups[l.Code], reasons[l.Code] = g, map[string]int{}
		}
		g.Count++
		reasons[l.Code][l.Reason]++
		if l.FailedAt != nil && (g.Oldest == nil || l.FailedAt.Before(*g.Oldest)) {
			g.Oldest = l.FailedAt
		}
		if l.FailedAt != nil && (g.Newest == nil || l.FailedAt.After(*g.Newest)) {
			g.Newest = l.FailedAt
		}
	}
	sorted := make([]Group, 0, len(groups))
	for code, g := range groups {
		g.Reasons = len(reasons[code])
		g.Reason = mostFrequent(reasons[code])
		sorted = append(sorted, *g)
	}
	slices.SortFunc(sorted, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code))
	})
	return sorted
}

func mostFrequent(counts map[string]int) (most string) {
	for text, n := range counts {
		if n > counts[most] || n == counts[most] && text < most {
			most = text
		}
	}
	return most
}
