package page_test

import (
	"net/url"
	"regexp"
	"slices"
	"testing"
	"time"
)

var rowIDs = regexp.MustCompile(`name="id" value="([^"]*)"`)

// rows returns the ids of the rows of all pages, and how many pages there are.
func (f fixture) rows(path string) (ids []string, pages int) {
	f.Helper()
	for path != "" {
		a := f.Get("ann", path).Want(200)
		for _, row := range rowIDs.FindAllStringSubmatch(a.Body, -1) {
			ids = append(ids, row[1])
		}
		path, pages = a.Link("next"), pages+1
	}
	return ids, pages
}

func TestPagesShowEachOfAThousandFailedEventsOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	want := f.fail(1000, "order.created")
	if got, pages := f.rows("/failed"); !slices.Equal(got, want) || pages != 20 {
		t.Errorf("%d rows on %d pages, want %d on 20", len(got), pages, len(want))
	}
	if got, pages := f.rows("/failed?topic=order.created&reason=refused"); !slices.Equal(got, want) || pages != 20 {
		t.Errorf("with a filter: %d rows on %d pages, want %d on 20", len(got), pages, len(want))
	}
}

func TestTheListIsGroupedAndFiltered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.Get("ann", "/failed").Want(200, "Nothing has failed.", "No failed event matches.")
	created, cancelled := f.fail(3, "order.created"), f.fail(2, "order.cancelled")
	f.exec("UPDATE outbox_queue SET failure_code = 'too_large', failed_at = now() - interval '2 hours' WHERE id = $1", cancelled[0])
	f.Get("ann", "/failed").Want(200, "refused, order.created", "refused, order.cancelled", "too_large, order.cancelled",
		`href="/failed?reason=refused&topic=order.created"`)
	aggregate := f.strings("SELECT aggregate_id FROM outbox_queue WHERE id = $1", created[1])[0]
	hourAgo := time.Now().UTC().Add(-time.Hour).Format("2006-01-02T15:04:05")
	failed := time.Now().UTC().Add(-2 * time.Hour).Truncate(time.Second)
	f.exec("UPDATE outbox_queue SET failed_at = $1 WHERE id = $2", failed, cancelled[0])
	window := func(since, until int) string { // in seconds from the failure
		at := func(seconds int) string {
			return failed.Add(time.Duration(seconds) * time.Second).Format("2006-01-02T15:04:05")
		}
		return "since=" + at(since) + "&until=" + at(until)
	}
	atSince, atUntil, after := window(0, 1), window(-60, 0), window(1, 60)
	for query, want := range map[string][]string{
		atSince:                              cancelled[:1], // it belongs to the range
		atUntil:                              nil,           // it does not
		after:                                nil,
		"reason=refused&topic=order.created": created,
		"topic=order.cancelled":              cancelled,
		"reason=too_large":                   cancelled[:1],
		"older=1h":                           cancelled[:1],
		"older=1h&until=2999-01-01T00:00":    cancelled[:1],
		"until=" + hourAgo:                   cancelled[:1],
		"since=" + hourAgo:                   append(slices.Clone(created), cancelled[1]),
		"event=" + created[2]:                created[2:],
		"order=" + aggregate:                 created[1:2],
		"older=3h":                           nil,
		"reason=" + url.QueryEscape("x' OR 1=1 --"): nil,
	} {
		if got, _ := f.rows("/failed?" + query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}

func TestAWrongFilterNamesItsField(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for query, want := range map[string]string{
		"older=yesterday": "It is not a duration above zero such as 90s",
		"event=12":        "It is not an id",
		"since=monday":    "It is not a time",
		"until=2026-1-1":  "It is not a time",
		"since=2026-01-31T08:00&until=2026-01-31T08:00": "It is not after",
		"topic=a%00b": "zero byte",
		"after=12":    "The parameter after is not the place",
	} {
		f.Get("ann", "/failed?"+query).Want(422, want)
	}
}
