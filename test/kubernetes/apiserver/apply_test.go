package apiserver_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const namespace = "transactional-outbox"

// operators have the custom resources that production uses. The versions and the sums are those of
// custom_test.go in the folder above.
var operators = []struct{ module, sum, file string }{
	{"github.com/rabbitmq/cluster-operator/v2@v2.16.0", "h1:oYJm+1tXIatGHtiUWyN9hGdO+0eWsXA/j1b81wh0IqI=", "config/crd/bases/rabbitmq.com_rabbitmqclusters.yaml"},
	{"github.com/cloudnative-pg/cloudnative-pg@v1.27.0", "h1:mp0zlYO4vKAJmQdArWORWKr1lmB4Hj8JeBQGX5RBnpg=", "config/crd/bases/postgresql.cnpg.io_clusters.yaml"},
	{"github.com/prometheus-operator/prometheus-operator@v0.94.1", "h1:QEIb2wenPH+SdMN1xMf8l4Pmj00YYXXI6HlbLlQWkww=", "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"},
	{"github.com/prometheus-operator/prometheus-operator@v0.94.1", "h1:QEIb2wenPH+SdMN1xMf8l4Pmj00YYXXI6HlbLlQWkww=", "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"},
}

// each runs a test for each overlay, with an empty cluster of its own.
func each(t *testing.T, test func(c *cluster, overlay string)) {
	t.Helper()
	for _, overlay := range []string{"demo", "production"} {
		t.Run(overlay, func(t *testing.T) {
			c := newCluster(t)
			if overlay == "production" {
				c.installOperators()
			}
			test(c, overlayPath(overlay))
		})
	}
}

func overlayPath(name string) string { return filepath.Join(manifests, "overlays", name) }

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

// TestTheAPIServerTakesEachOverlay: the API server knows every field, its validation finds nothing,
// and it warns of nothing. What it has stored is what the manifests say: applying them again
// changes nothing.
func TestTheAPIServerTakesEachOverlay(t *testing.T) {
	each(t, func(c *cluster, overlay string) {
		// Without the namespace, nothing in it can be tried.
		c.must("", "apply", "--server-side", "-f", manifests+"/base/namespace.yaml")
		tried := c.must("", "apply", "--server-side", "--dry-run=server", "--validate=strict", "-k", overlay)
		c.must("", "apply", "--server-side", "--validate=strict", "-k", overlay)
		before := c.versions()
		again := c.must("", "apply", "--server-side", "--validate=strict", "-k", overlay)
		if n := strings.Count(tried, "\n"); n < 30 || n != strings.Count(again, "\n") {
			c.Errorf("tried:\n%s\napplied:\n%s", tried, again)
		}
		c.unchanged(before)
	})
}

// versions returns the version of each object of ours.
func (c *cluster) versions() string {
	c.Helper()
	return c.must("", "get", "deploy,sts,job,svc,sa,cm,secret,pdb,hpa,netpol", "-n", namespace,
		"-o", `jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion}{"\n"}{end}`)
}

// unchanged fails if an object has changed since before.
func (c *cluster) unchanged(before string) {
	c.Helper()
	if after := c.versions(); after != before {
		c.Errorf("applying the same again changed something:\n%s\n%s", before, after)
	}
}

// TestKubectlApplyOfEachOverlay runs the README's command as it stands there, on an empty cluster.
func TestKubectlApplyOfEachOverlay(t *testing.T) {
	each(t, func(c *cluster, overlay string) {
		if overlay == overlayPath("production") {
			c.must("", "apply", "-f", manifests+"/base/namespace.yaml")
		}
		c.must("", "apply", "-k", overlay)
		before := c.versions() // because kubectl says "configured" also of objects that stay as they are
		c.must("", "apply", "-k", overlay)
		c.unchanged(before)
		c.checkPods()
		c.checkRights()
		c.checkMigrationJob(overlay)
	})
}

// checkMigrationJob: the Job of a version cannot be changed. So a new version needs a new name, as
// the README says.
func (c *cluster) checkMigrationJob(overlay string) {
	c.Helper()
	rendered := c.must("", "kustomize", overlay)
	at := strings.Index(rendered, "kind: Job\n")
	start, end := strings.LastIndex(rendered[:at], "---\n"), at+strings.Index(rendered[at:]+"---\n", "---\n")
	job := rendered[max(start, 0):min(end, len(rendered))]
	c.must(job, "apply", "--dry-run=server", "-f", "-")
	changed := strings.Replace(job, "- migrate\n", "- migrate\n        - --again\n", 1)
	if changed == job {
		c.Fatalf("the test cannot change this Job:\n%s", job)
	}
	c.refused(changed, "field is immutable", "apply", "--dry-run=server", "-f", "-")
}
