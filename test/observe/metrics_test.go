package observe_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"example.com/transactional-outbox/internal/telemetry"
	"example.com/transactional-outbox/test/observe"
)

// others are metrics that the services do not export: Prometheus's own, and metrics of RabbitMQ's
// plugin. TestEveryQueryReturnsSeries queries the latter on a real broker.
var others = []string{
	"up", "ALERTS",
	"rabbitmq_identity_info",
	"rabbitmq_detailed_raft_commit_index",
	"rabbitmq_alarms_memory_used_watermark",
	"rabbitmq_alarms_free_disk_space_watermark",
	"rabbitmq_detailed_queue_consumers",
	"rabbitmq_detailed_queue_messages",
	"rabbitmq_detailed_queue_messages_ready",
	"rabbitmq_detailed_queue_messages_unacked",
}

// TestEveryMetricIsInTheCode finds renamed metrics: their panels would be empty, and their alerts
// would never fire.
func TestEveryMetricIsInTheCode(t *testing.T) {
	t.Parallel()
	known := slices.Concat(others, runtimeMetrics(t), literals(t))
	queries, err := observe.Queries(root, "1m")
	must(t, err)
	for _, q := range queries {
		for _, name := range q.Metrics() {
			if !slices.Contains(known, name) {
				t.Errorf("%s: nothing exports %s", q.Where, name)
			}
		}
	}
}

// runtimeMetrics returns the metrics of the libraries.
func runtimeMetrics(t *testing.T) (names []string) {
	t.Helper()
	families, err := telemetry.NewRegistry().Gather()
	must(t, err)
	for _, family := range families {
		names = append(names, family.GetName())
	}
	return names
}

// literals returns the string literals in the code of the library and the services. They include
// the names of all metrics
// and all log messages.
func literals(t *testing.T) (found []string) {
	t.Helper()
	for _, folder := range []string{"outbox", "order-service", "notification-service", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err == nil {
				found = append(found, literalsOf(file)...)
			}
			return err
		})
		must(t, err)
	}
	return found
}

func literalsOf(file *ast.File) (found []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			if text, err := strconv.Unquote(literal.Value); err == nil {
				found = append(found, text)
			}
		}
		return true
	})
	return found
}
