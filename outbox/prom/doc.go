// Package prom reports a relay and a consumer to Prometheus.
//
//	registry.MustRegister(prom.Collector(relay, nil))
//
// The metrics are those of one process, except the backlog: every process with a relay reports the
// same tables. So take their max, not the sum. Alert on outbox_oldest_unfinished_age_seconds: it
// grows whenever an event is not published, for any reason, except those that have failed.
package prom
