package kubernetes_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// spec returns the spec of one object of the production overlay.
func spec[T any](t *testing.T, kind, name string) (found T) {
	t.Helper()
	for _, o := range all[struct {
		Metadata struct{ Name string }
		Spec     T
	}](t, "production", kind) {
		if o.Metadata.Name == name {
			return o.Spec
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return found
}

func TestTheRulesAreThoseOfPrometheus(t *testing.T) {
	t.Parallel()
	var want any
	must(t, yaml.Unmarshal([]byte(read(t, "prometheus/rules.yml")), &want))
	if got := spec[any](t, "PrometheusRule", "transactional-outbox"); !reflect.DeepEqual(got, want) {
		t.Error("the rules differ: run deploy/kubernetes/components/monitoring/generate")
	}
}

// The alerts select services by job="…".
func TestTheMonitorsGiveTheJobsOfTheRules(t *testing.T) {
	t.Parallel()
	for _, service := range services {
		if !strings.Contains(read(t, "prometheus/rules.yml"), `job="`+service+`"`) {
			t.Errorf("no rule has the job %s", service)
		}
		monitor := spec[struct {
			JobLabel string
			Selector struct{ MatchLabels map[string]string }
		}](t, "ServiceMonitor", service)
		if got := monitor.Selector.MatchLabels[monitor.JobLabel]; got != service {
			t.Errorf("the job of %s is %q", service, got)
		}
	}
}

// The demo's broker has one setting that is only for a laptop.
func TestTheClusterHasTheSettingsOfTheBroker(t *testing.T) {
	t.Parallel()
	got := spec[struct {
		Rabbitmq struct{ AdditionalConfig string }
	}](t, "RabbitmqCluster", "rabbitmq").Rabbitmq.AdditionalConfig
	for line := range strings.Lines(read(t, "deploy/rabbitmq/rabbitmq.conf") + "cluster_partition_handling = pause_minority\n") {
		if strings.Contains(line, " = ") && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "raft.wal_max_size_bytes") && !strings.Contains(got, line) {
			t.Errorf("the cluster lacks %s", line)
		}
	}
}

var executed = regexp.MustCompile(`EXECUTE format\('(.+?)', ([a-z_(), ]+)\);`)

// plain are the statements without a name of a role.
var plain = regexp.MustCompile(`(?m)^  ((?:GRANT|REVOKE) .+);$`)

// roles.sql does more: the operator makes logins and passwords, and a new database has no objects
// that need another owner.
func TestTheDatabasesHaveThePrivilegesOfTheRoles(t *testing.T) {
	t.Parallel()
	for name, role := range map[string]string{"order-db": "order_service", "notification-db": "notification_service"} {
		got := spec[struct {
			Bootstrap struct {
				Initdb struct{ PostInitApplicationSQL []string }
			}
		}](t, "Cluster", name).Bootstrap.Initdb.PostInitApplicationSQL
		for _, statement := range privileges(t, role) {
			if !strings.Contains(strings.Join(got, "\n"), statement) {
				t.Errorf("%s lacks %s", name, statement)
			}
		}
	}
}

// privileges returns the statements of roles.sql, without those that the operator replaces.
func privileges(t *testing.T, role string) (found []string) {
	t.Helper()
	names := map[string]string{"application": role, "owner": role + "_owner", "current_database()": role}
	for _, match := range executed.FindAllStringSubmatch(read(t, "deploy/postgres/roles.sql"), -1) {
		statement := strings.ReplaceAll(match[1], "''", "'")
		if strings.Contains(statement, "PASSWORD") || strings.Contains(statement, "ALTER DATABASE") {
			continue
		}
		for argument := range strings.SplitSeq(match[2], ", ") {
			name, known := names[argument]
			if !known {
				statement = ""
			}
			statement = strings.Replace(statement, "%I", name, 1)
		}
		if statement != "" {
			found = append(found, statement)
		}
	}
	for _, match := range plain.FindAllStringSubmatch(read(t, "deploy/postgres/roles.sql"), -1) {
		found = append(found, match[1])
	}
	if len(found) < 9 {
		t.Fatalf("only %d statements were found in roles.sql: %q", len(found), found)
	}
	return found
}
