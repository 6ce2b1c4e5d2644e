package prom

import "github.com/prometheus/client_golang/prometheus"

// The relay's own numbers. Every series starts at zero. Otherwise an alert on an increase would
// miss the first one.
var (
	events        = describe("outbox_events_total", "Events that the relay finished, by their status.", "status")
	retries       = describe("outbox_retries_total", "Attempts that a queue refused and that are followed by another one.")
	exhaustions   = describe("outbox_retry_exhaustions_total", "Events that failed after their last attempt.")
	refused       = describe("outbox_refused_total", "Publishes that a queue refused. Only those of events that it refuses while it takes others spend an attempt.")
	unroutable    = describe("outbox_unroutable_total", "Publishes that the broker returned because no queue is bound.")
	leaseLost     = describe("outbox_lease_lost_total", "Events that another relay had claimed before their outcome was written.")
	publishErrors = describe("outbox_publish_errors_total",
		"Publishes with an unknown outcome: the channel or the connection closed, or no confirm came in time. The events are published again.")
	deadLettered     = describe("outbox_dlq_published_total", "Failed events that have a copy in the dead-letter queue.")
	deadLetterFailed = describe("outbox_dlq_publish_failed_total",
		"Failed events that have no copy in the dead-letter queue, because the broker did not take it. The events themselves stay in the outbox.")
	latency = describe("outbox_publish_latency_seconds",
		"Seconds from the begin of the transaction that appended the event to its confirm.")
	claims    = describe("outbox_claim_seconds", "Seconds that the claims took: they find the due events and read them. Only those that succeeded count.")
	marks     = describe("outbox_mark_seconds", "Seconds that it took to record batches as published. Only what succeeded counts.")
	up        = describe("outbox_relay_up", "1 while this relay has a session with the broker.")
	listening = describe("outbox_relay_listening",
		"1 while this relay listens for events that other processes commit. Otherwise its poll finds them.")
	refusesAll = describe("outbox_broker_refuses_all",
		"1 while the broker refuses every event that this relay publishes. It then only probes, and spends no attempts.")
)

// The numbers of the tables.
var (
	backlog = describe("outbox_backlog",
		"Events that are not published yet; above 200,000 an estimate. Every replica reports the same table: take the max, not the sum.")
	unfinished = describe("outbox_events",
		"Unfinished events, by status. Every replica reports the same table: take the max, not the sum.", "status")
	unroutableEvents = describe("outbox_events_unroutable",
		"Pending events without a route: the broker returned them, or another event of their topic. Every replica reports the same table: take the max, not the sum.")
	oldestDue = describe("outbox_oldest_due_age_seconds",
		"Seconds since the oldest due event became due. Every replica reports the same table: take the max, not the sum.")
	slotAge = describe("outbox_slot_age_seconds",
		"Seconds since new events go to the current slot of the log. Longer than a third of the retention: something keeps the janitor from emptying the next slot. Every replica reports the same table: take the max, not the sum.")
)

var (
	consumerMessages = describe("consumer_messages_total", "Deliveries that are done, by their outcome.", "outcome")
	consumerUp       = describe("consumer_up", "1 while this consumer takes messages.")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}
