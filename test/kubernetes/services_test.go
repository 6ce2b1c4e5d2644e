package kubernetes_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

func TestEveryServiceLeadsToOneWorkloadAndItsPorts(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, overlay string) {
		for _, s := range all[core.Service](t, overlay) {
			found := selected(t, overlay, labels.SelectorFromSet(s.Spec.Selector))
			if len(found) != 1 {
				t.Errorf("%s selects %d workloads", s.Name, len(found))
				continue
			}
			for _, port := range s.Spec.Ports {
				if containerPort(found[0], port.TargetPort.StrVal) == 0 {
					t.Errorf("%s: %s has no port %s", s.Name, found[0].name, port.TargetPort.StrVal)
				}
			}
		}
	})
}

func containerPort(w workload, name string) int32 {
	for _, port := range w.container().Ports {
		if port.Name == name {
			return port.ContainerPort
		}
	}
	return 0
}

func TestADrainTakesOnePodOfEachDeploymentAtATime(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, overlay string) {
		covered := map[string]bool{}
		for _, budget := range all[policy.PodDisruptionBudget](t, overlay) {
			selector, err := meta.LabelSelectorAsSelector(budget.Spec.Selector)
			must(t, err)
			for _, w := range selected(t, overlay, selector) {
				covered[w.name] = budget.Spec.MaxUnavailable.IntVal == 1
			}
		}
		for _, d := range all[apps.Deployment](t, overlay) {
			if !covered[d.Name] {
				t.Errorf("%s has no budget of one pod", d.Name)
			}
		}
	})
}

func TestEveryDeploymentSelectsAndSpreadsItsOwnPods(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, overlay string) {
		for _, d := range all[apps.Deployment](t, overlay) {
			selectors := []*meta.LabelSelector{d.Spec.Selector}
			for _, spread := range d.Spec.Template.Spec.TopologySpreadConstraints {
				selectors = append(selectors, spread.LabelSelector)
			}
			if len(selectors) != 3 {
				t.Errorf("%s is not spread over nodes and zones", d.Name)
			}
			for _, s := range selectors {
				selector, err := meta.LabelSelectorAsSelector(s)
				must(t, err)
				if found := selected(t, overlay, selector); len(found) != 1 || found[0].name != d.Name {
					t.Errorf("%s: %s selects %d workloads", d.Name, selector, len(found))
				}
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

func TestAPodHasTimeToFinishWhatIsInFlight(t *testing.T) {
	t.Parallel()
	drain := seconds(t, "internal/command/command.go", `const maxDrain = (\d+) \* time\.Second`)
	each(t, func(t *testing.T, overlay string) {
		for _, d := range all[apps.Deployment](t, overlay) {
			pod, needed := d.Spec.Template.Spec, drain
			if hook := pod.Containers[0].Lifecycle; hook != nil {
				needed += hook.PreStop.Sleep.Seconds
			}
			if *pod.TerminationGracePeriodSeconds <= needed {
				t.Errorf("%s has %d s, and needs more than %d s", d.Name, *pod.TerminationGracePeriodSeconds, needed)
			}
		}
	})
}

func TestAProbeWaitsForTheAnswerOfReadyz(t *testing.T) {
	t.Parallel()
	limit := seconds(t, "internal/httpserver/ops.go", `WithTimeout\(r\.Context\(\), (\d+)\*time\.Second\)`)
	each(t, func(t *testing.T, overlay string) {
		for _, d := range all[apps.Deployment](t, overlay) {
			if got := d.Spec.Template.Spec.Containers[0].ReadinessProbe.TimeoutSeconds; int64(got) <= limit {
				t.Errorf("the probe of %s waits for %d s, and the answer may take %d s", d.Name, got, limit)
			}
		}
	})
}

// An apply would undo each decision of the autoscaler.
func TestOnlyTheConsumerIsScaledAndHasNoNumberOfReplicas(t *testing.T) {
	t.Parallel()
	scaled := map[string]bool{}
	for _, a := range all[autoscaling.HorizontalPodAutoscaler](t, "production") {
		scaled[a.Spec.ScaleTargetRef.Name] = true
	}
	if len(scaled) != 1 || !scaled["notification-service"] {
		t.Errorf("scaled: %v", scaled)
	}
	for _, d := range all[apps.Deployment](t, "production") {
		if replicas := d.Spec.Replicas; scaled[d.Name] != (replicas == nil) || replicas != nil && *replicas != 3 {
			t.Errorf("%s has %v replicas", d.Name, replicas)
		}
	}
}

func TestEveryImageHasAVersion(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, overlay string) {
		for _, w := range workloads(t, overlay) {
			for _, c := range append(w.pod.Spec.Containers, w.pod.Spec.InitContainers...) {
				_, tag, _ := strings.Cut(c.Image[strings.LastIndex(c.Image, "/")+1:], ":")
				if c.Name != "setup-container" && (tag == "" || tag == "latest") {
					t.Errorf("%s: the image %q has no version", w.name, c.Image)
				}
			}
		}
	})
}

func TestTheDemoHasTheImagesOfCompose(t *testing.T) {
	t.Parallel()
	for _, s := range all[apps.StatefulSet](t, "demo") {
		if image := s.Spec.Template.Spec.Containers[0].Image; !strings.Contains(read(t, ".env"), "_IMAGE="+image+"\n") {
			t.Errorf("%s has %s, which is not in .env", s.Name, image)
		}
	}
}

// A Job cannot be changed. So a new version needs a new name, and a Job must not name anything that
// gets a new name with each setting.
func TestEachVersionHasItsOwnMigration(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, overlay string) {
		for _, j := range all[batch.Job](t, overlay) {
			c := j.Spec.Template.Spec.Containers[0]
			_, tag, _ := strings.Cut(c.Image, ":")
			if !strings.HasSuffix(j.Name, "-migrate-"+strings.ReplaceAll(tag, ".", "-")) {
				t.Errorf("%s migrates for the image %s", j.Name, c.Image)
			}
			if len(c.EnvFrom) > 0 {
				t.Errorf("%s names a ConfigMap", j.Name)
			}
			for name := range secrets(workload{pod: j.Spec.Template}) {
				if regexp.MustCompile(`-[0-9a-z]{10}$`).MatchString(name) {
					t.Errorf("%s names the generated secret %s", j.Name, name)
				}
			}
		}
	})
}
