package kubernetes_test

import (
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

func TestEveryPodIsRestricted(t *testing.T) {
	t.Parallel()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	must(t, err)
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	each(t, func(t *testing.T, overlay string) {
		for _, w := range workloads(t, overlay) {
			if w.pod.Spec.SecurityContext == nil && len(w.pod.Spec.Volumes) == 0 && w.container().Name == "" {
				continue // CloudNativePG's pods, which the manifests say nothing about
			}
			for _, result := range evaluator.EvaluatePod(restricted, &w.pod.ObjectMeta, &w.pod.Spec) {
				if !result.Allowed {
					t.Errorf("%s: %s: %s", w.name, result.ForbiddenReason, result.ForbiddenDetail)
				}
			}
		}
	})
}

func TestTheNamespaceEnforcesRestrictedPods(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, overlay string) {
		for _, n := range all[core.Namespace](t, overlay) {
			if got := n.Labels[api.EnforceLevelLabel]; got != string(api.LevelRestricted) {
				t.Errorf("%s enforces %q", n.Name, got)
			}
		}
	})
}

// The user of the image, gcr.io/distroless/static:nonroot.
const nonroot = 65532

func TestTheServicesRunAsTheUserOfTheImage(t *testing.T) {
	t.Parallel()
	if !strings.Contains(read(t, "Dockerfile"), "distroless/static-debian13:nonroot\n") {
		t.Fatal("the Dockerfile has another base image: compare its user with the manifests")
	}
	each(t, func(t *testing.T, overlay string) {
		for _, w := range workloads(t, overlay) {
			if _, ok := w.ours(); !ok {
				continue
			}
			if s := w.pod.Spec.SecurityContext; *s.RunAsUser != nonroot || *s.FSGroup != nonroot {
				t.Errorf("%s runs as the user %d with the group %d", w.name, *s.RunAsUser, *s.FSGroup)
			}
			if !*w.container().SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s may write to its image", w.name)
			}
		}
	})
}

func TestNoPodHasATokenForTheAPIServer(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, overlay string) {
		for _, w := range workloads(t, overlay) {
			_, ours := w.ours()
			if token := w.pod.Spec.AutomountServiceAccountToken; ours && (token == nil || *token) {
				t.Errorf("%s has a token", w.name)
			}
		}
		for _, a := range all[core.ServiceAccount](t, overlay) {
			if a.AutomountServiceAccountToken == nil || *a.AutomountServiceAccountToken {
				t.Errorf("the account %s has a token", a.Name)
			}
		}
	})
}

// The API is what the public reaches.
func TestTheAPIHasNoSecretOfTheBroker(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, overlay string) {
		for _, w := range workloads(t, overlay) {
			component := w.pod.Labels["app.kubernetes.io/component"]
			connects := component == "relay" || component == "consumer"
			for name := range environment(t, overlay, w) {
				if strings.HasPrefix(name, "AMQP_URL") && !connects {
					t.Errorf("%s has %s, and never connects to the broker", w.name, name)
				}
			}
			for name := range secrets(w) {
				if strings.HasSuffix(name, "-broker") && !connects {
					t.Errorf("%s has the secret %s", w.name, name)
				}
				if (strings.HasSuffix(name, "-owner") || strings.HasSuffix(name, "-app")) && component != "migrate" && !strings.HasSuffix(w.name, "-db") {
					t.Errorf("%s has the password of the database's owner, %s", w.name, name)
				}
			}
		}
	})
}

// secrets returns the keys of each secret that a pod mounts.
func secrets(w workload) map[string][]core.KeyToPath {
	found := map[string][]core.KeyToPath{}
	for _, v := range w.pod.Spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			found[source.Secret.Name] = append(found[source.Secret.Name], source.Secret.Items...)
		}
	}
	return found
}

func TestAProductionOverlayHasNoSecrets(t *testing.T) {
	t.Parallel()
	if found := all[core.Secret](t, "production"); len(found) > 0 {
		t.Errorf("%d secrets", len(found))
	}
}

func TestTheDemoHasEverySecretThatItsPodsMount(t *testing.T) {
	t.Parallel()
	for _, w := range workloads(t, "demo") {
		for name, items := range secrets(w) {
			for _, item := range items {
				if len(secretValue(t, name, item.Key)) == 0 {
					t.Errorf("%s mounts %s of the secret %s, which does not exist", w.name, item.Key, name)
				}
			}
		}
	}
}

// secretValue returns a value of a secret of the demo.
func secretValue(t *testing.T, name, key string) []byte {
	t.Helper()
	for _, s := range all[core.Secret](t, "demo") {
		if s.Name == name {
			return s.Data[key]
		}
	}
	return nil
}
