// Package observe reads the dashboards and the alert rules for tests, and runs a real Prometheus to
// test their queries.
package observe
