// Package observe lets tests read what Prometheus and Grafana are given, as these two
// read it: the dashboards' queries, the alert rules, and a real Prometheus to ask them.
package observe
