package apiserver_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const namespace = "transactional-outbox"

// operators have the custom resources that production uses.
var operators = []struct{ module, sum, file string }{
	{"github.com/rabbitmq/cluster-operator/v2@v2.16.0", "h1:oYJm+1tXIatGHtiUWyN9hGdO+0eWsXA/j1b81wh0IqI=", "config/crd/bases/rabbitmq.com_rabbitmqclusters.yaml"},
	{"github.com/cloudnative-pg/cloudnative-pg@v1.27.0", "h1:mp0zlYO4vKAJmQdArWORWKr1lmB4Hj8JeBQGX5RBnpg=", "config/crd/bases/postgresql.cnpg.io_clusters.yaml"},
	{"github.com/prometheus-operator/prometheus-operator@v0.94.1", "h1:QEIb2wenPH+SdMN1xMf8l4Pmj00YYXXI6HlbLlQWkww=", "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"},
	{"github.com/prometheus-operator/prometheus-operator@v0.94.1", "h1:QEIb2wenPH+SdMN1xMf8l4Pmj00YYXXI6HlbLlQWkww=", "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"},
}

// installOperators creates the kinds. The operators themselves do not run.
func (c *cluster) installOperators() {
	c.Helper()
	for _, o := range operators {
		download := exec.CommandContext(c.Context(), "go", "mod", "download", "-json", o.module)
		download.Dir = os.TempDir() // outside of any module, so that no go.sum is changed
		out, err := download.Output()
		must(c.T, err)
		var got struct{ Dir, Sum string }
		must(c.T, json.Unmarshal(out, &got))
		if got.Sum != o.sum {
			c.Fatalf("%s has the sum %s, not %s", o.module, got.Sum, o.sum)
		}
		c.must("", "apply", "--server-side", "-f", filepath.Join(got.Dir, o.file))
	}
	c.must("", "wait", "--for=condition=established", "--timeout=1m", "crd", "--all")
}

// versions returns the version of each object of ours.
func (c *cluster) versions() string {
	c.Helper()
	return c.must("", "get", "deploy,sts,job,svc,sa,cm,secret,pdb,hpa,netpol", "-n", namespace,
		"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)
}

// TestTheAPIServerTakesEachOverlay runs the README's command as it stands there, on an empty cluster.
// The API server knows every field, its validation finds nothing, and it warns of nothing. What it
// has stored is what the manifests say: applying them again changes nothing.
func TestTheAPIServerTakesEachOverlay(t *testing.T) {
	for _, name := range []string{"demo", "production"} {
		t.Run(name, func(t *testing.T) {
			c, overlay := newCluster(t), filepath.Join(manifests, "overlays", name)
			if name == "production" {
				c.installOperators()
				c.must("", "apply", "-f", manifests+"/base/namespace.yaml")
			}
			c.must("", "apply", "-k", overlay)
			before := c.versions() // because kubectl says "configured" also of objects that stay as they are
			c.must("", "apply", "-k", overlay)
			if after := c.versions(); after != before {
				c.Errorf("applying the same again changed something:\n%s\n%s", before, after)
			}
			c.checkPods()
		})
	}
}
