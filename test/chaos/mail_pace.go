package main

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/chaos/checker"
)

// goodMail is how long all but one of a hundred e-mails may take, from the order's commit until the
// mail server has accepted them, while others are refused or slow.
const goodMail = 5 * time.Second

// requireMailPace requires goodMail of the e-mails that a fault spares. An e-mail that was
// superseded is as late as the newer one. The events of the last seconds are left out: their time
// is not over.
func (sys *system) requireMailPace(ctx context.Context, since time.Time, spared func(to string) bool) error {
	arrived := map[string]time.Time{} // the first copy
	for _, m := range sys.mail.Mails() {
		if id := checker.MessageID(m); arrived[id].IsZero() {
			arrived[id] = m.At
		}
	}
	type event struct {
		ID, OrderID, To string
		Version         int
		At              time.Time
	}
	rows, _ := sys.orderDB.Query(ctx, `
		SELECT id::text, aggregate_id AS order_id, payload::json->>'customer_email' AS "to", version, created_at AS at FROM outbox_status
		WHERE topic LIKE 'order.%' AND created_at BETWEEN $1 AND $2 ORDER BY version DESC`, since, time.Now().Add(-goodMail))
	events, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[event])
	if err != nil {
		return err
	}
	newest := map[string]time.Time{} // an e-mail of the order that may stand for the older ones
	var delays []time.Duration
	slowest, slowestTo := time.Duration(0), ""
	for _, e := range events {
		at := arrived[e.ID]
		if at.IsZero() {
			at = newest[e.OrderID]
		} else if newest[e.OrderID].IsZero() {
			newest[e.OrderID] = at
		}
		if at.IsZero() {
			at = time.Now()
		}
		if spared(e.To) {
			delay := at.Sub(e.At)
			if delays = append(delays, delay); delay > slowest {
				slowest, slowestTo = delay, e.To
			}
		}
	}
	if len(delays) < 20 {
		sys.reportViolation("harness", "%d e-mails are too few to measure their pace", len(delays))
		return nil
	}
	slices.Sort(delays)
	p50, p99 := delays[len(delays)/2], delays[len(delays)*99/100]
	sys.noted("%d e-mails of the others: p50 %s, p99 %s, longest %s (to %s)", len(delays), ms(p50), ms(p99), ms(slowest), slowestTo)
	if p99 > goodMail {
		sys.reportViolation("P9", "p99 of the e-mails that the fault spares is %s, want at most %s", ms(p99), goodMail)
	}
	return nil
}
