// Package prom reports a relay and a consumer to Prometheus.
//
//	registry.MustRegister(prom.Collector(relay, nil))
//
// The metrics are those of one process, except the backlog: every process with a relay reports the
// same tables. So take their max, not the sum. Alert on outbox_oldest_due_age_seconds: it
// grows whenever events are not published, for any reason.
package prom
