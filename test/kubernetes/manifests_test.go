package kubernetes_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// TestEverySelectorMatchesOneWorkload: an API server takes a Service, a budget or a spread that
// selects nothing.
func TestEverySelectorMatchesOneWorkload(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, overlay string) {
		selected := func(what string, s *meta.LabelSelector) workload {
			selector, err := meta.LabelSelectorAsSelector(s)
			must(t, err)
			var found []workload
			for _, w := range workloads(t, overlay) {
				if !selector.Empty() && selector.Matches(labels.Set(w.pod.Labels)) {
					found = append(found, w)
				}
			}
			if len(found) != 1 {
				t.Fatalf("%s selects %d workloads", what, len(found))
			}
			return found[0]
		}
		for _, s := range all[core.Service](t, overlay, "Service") {
			w := selected(s.Name, &meta.LabelSelector{MatchLabels: s.Spec.Selector})
			for _, port := range s.Spec.Ports {
				if w.port(port.TargetPort.StrVal) == 0 {
					t.Errorf("%s: %s has no port %s", s.Name, w.name, port.TargetPort.StrVal)
				}
			}
		}
		budgets := map[string]bool{} // by workload
		for _, b := range all[policy.PodDisruptionBudget](t, overlay, "PodDisruptionBudget") {
			if overlay == "production" && b.Name == "rabbitmq" {
				continue // an operator makes its pods
			}
			budgets[selected("the budget "+b.Name, b.Spec.Selector).name] = true
		}
		for _, d := range all[apps.Deployment](t, overlay, "Deployment") {
			if !budgets[d.Name] {
				t.Errorf("%s has no disruption budget", d.Name)
			}
			for _, spread := range d.Spec.Template.Spec.TopologySpreadConstraints {
				if w := selected("a spread of "+d.Name, spread.LabelSelector); w.name != d.Name {
					t.Errorf("%s spreads the pods of %s", d.Name, w.name)
				}
			}
		}
	})
}

// TestP12APodHasTheTimesOfTheServices reads the times from the source of the services.
func TestP12APodHasTheTimesOfTheServices(t *testing.T) {
	t.Parallel()
	drain := seconds(t, "internal/command/command.go", `var maxDrain = (\d+) \* time\.Second`)
	readyz := seconds(t, "internal/httpserver/ops.go", `WithTimeout\(r\.Context\(\), (\d+)\*time\.Second\)`)
	each(t, func(t *testing.T, overlay string) {
		for _, d := range all[apps.Deployment](t, overlay, "Deployment") {
			pod, needed := d.Spec.Template.Spec, drain
			if hook := pod.Containers[0].Lifecycle; hook != nil {
				needed += hook.PreStop.Sleep.Seconds
			}
			if *pod.TerminationGracePeriodSeconds <= needed {
				t.Errorf("%s has %d s, and needs more than %d s", d.Name, *pod.TerminationGracePeriodSeconds, needed)
			}
			if got := pod.Containers[0].ReadinessProbe.TimeoutSeconds; int64(got) <= readyz {
				t.Errorf("the probe of %s waits for %d s, and the answer may take %d s", d.Name, got, readyz)
			}
		}
	})
}

// seconds finds a number of seconds in the source of this repository.
func seconds(t *testing.T, file, pattern string) int64 {
	t.Helper()
	match := regexp.MustCompile(pattern).FindStringSubmatch(read(t, file))
	if match == nil {
		t.Fatalf("%s has no %s", file, pattern)
	}
	n, err := strconv.ParseInt(match[1], 10, 64)
	must(t, err)
	return n
}

// The user of the image, gcr.io/distroless/static:nonroot.
const nonroot = 65532

// TestAPodHasOnlyTheRightsAndTheSecretsThatItNeeds: the API is what the public reaches.
func TestAPodHasOnlyTheRightsAndTheSecretsThatItNeeds(t *testing.T) {
	t.Parallel()
	if !strings.Contains(read(t, "Dockerfile"), "distroless/static-debian13:nonroot\n") {
		t.Fatal("the Dockerfile has another base image: compare its user with the manifests")
	}
	each(t, func(t *testing.T, overlay string) {
		for _, w := range workloads(t, overlay) {
			if _, ours := w.ours(); !ours {
				continue
			}
			spec := w.pod.Spec
			if s := spec.SecurityContext; *s.RunAsUser != nonroot || *s.FSGroup != nonroot {
				t.Errorf("%s runs as the user %d with the group %d", w.name, *s.RunAsUser, *s.FSGroup)
			}
			if !*w.container().SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s may write to its image", w.name)
			}
			if token := spec.AutomountServiceAccountToken; token == nil || *token {
				t.Errorf("%s has a token for the API server", w.name)
			}
			component := w.pod.Labels["app.kubernetes.io/component"]
			connects := component == "relay" || component == "consumer"
			for name := range w.secrets() {
				if strings.HasSuffix(name, "-broker") && !connects {
					t.Errorf("%s has the secret %s, and never connects to the broker", w.name, name)
				}
				if (strings.HasSuffix(name, "-owner") || strings.HasSuffix(name, "-app")) && component != "migrate" {
					t.Errorf("%s has the password of the database's owner, %s", w.name, name)
				}
			}
		}
	})
	for _, o := range render(t, "production") {
		switch {
		case slices.Contains([]string{"Secret", "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"}, o.Kind):
			t.Errorf("the production overlay has the %s %s", o.Kind, o.Metadata.Name)
		case o.Kind == "Namespace" && !strings.Contains(string(o.json), `"pod-security.kubernetes.io/enforce":"restricted"`):
			t.Errorf("the API server would admit pods with more rights: %s", o.json)
		}
	}
}

// TestEachVersionHasItsOwnMigration: a Job cannot be changed. So a new version needs a new name, and
// a Job must not name anything that gets a new name with each setting.
func TestEachVersionHasItsOwnMigration(t *testing.T) {
	t.Parallel()
	generated := regexp.MustCompile(`-[0-9a-z]{10}$`)
	each(t, func(t *testing.T, overlay string) {
		for _, j := range all[batch.Job](t, overlay, "Job") {
			w := workload{j.Name, j.Spec.Template}
			_, tag, _ := strings.Cut(w.container().Image, ":")
			if tag == "" || !strings.HasSuffix(j.Name, "-migrate-"+strings.ReplaceAll(tag, ".", "-")) {
				t.Errorf("%s migrates for the image %s", j.Name, w.container().Image)
			}
			if len(w.container().EnvFrom) > 0 {
				t.Errorf("%s names a ConfigMap", j.Name)
			}
			for name := range w.secrets() {
				if generated.MatchString(name) {
					t.Errorf("%s names the generated secret %s", j.Name, name)
				}
			}
		}
	})
}
