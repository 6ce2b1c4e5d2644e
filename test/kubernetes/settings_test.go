package kubernetes_test

import (
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
)

// Variables that Go's runtime and the driver of PostgreSQL read.
var notOurs = []string{"GOMEMLIMIT", "PGSSLMODE", "PGSSLROOTCERT"}

// TestTheServicesTakeTheSettingsOfTheirPods runs each container's command with its settings and its
// files. The service logs the settings that it knows, so a name that it does not know is found.
func TestTheServicesTakeTheSettingsOfTheirPods(t *testing.T) {
	t.Parallel()
	binaries := build(t)
	each(t, func(t *testing.T, overlay string) {
		for _, w := range workloads(t, overlay) {
			service, ok := w.ours()
			if !ok {
				continue
			}
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				environment := environment(t, overlay, w)
				for name, value := range environment { // readers replace the addresses by their own
					environment[name] = strings.Replace(value, "@example.com", "@shop.test", 1)
				}
				checkAddresses(t, w, environment)
				p := run(t, binaries+"/"+service, w, environment)
				for name, value := range environment {
					checkSetting(t, p.settings, name, value)
				}
				checkProbes(t, p.address, w.container())
			})
		}
	})
}

// environment returns the variables of a pod, with those of its ConfigMaps.
func environment(t *testing.T, overlay string, w workload) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, from := range w.container().EnvFrom {
		for _, c := range all[core.ConfigMap](t, overlay) {
			if c.Name == from.ConfigMapRef.Name {
				maps.Copy(found, c.Data)
			}
		}
	}
	if len(w.container().EnvFrom) > 0 && len(found) == 0 {
		t.Errorf("the ConfigMap of %s does not exist", w.name)
	}
	for _, variable := range w.container().Env {
		found[variable.Name] = variable.Value
	}
	return found
}

// checkAddresses compares the ports of a container with the addresses on which the service listens.
func checkAddresses(t *testing.T, w workload, environment map[string]string) {
	t.Helper()
	for name, variable := range map[string]string{"http": "HTTP_ADDR", "ops": "OPS_ADDR"} {
		port := containerPort(w, name)
		if port == 0 {
			continue
		}
		if want := net.JoinHostPort("0.0.0.0", strconv.Itoa(int(port))); environment[variable] != want {
			t.Errorf("%s is %q, and the port is %d", variable, environment[variable], port)
		}
	}
}

// checkSetting fails unless the service knows the setting and has its value.
func checkSetting(t *testing.T, settings map[string]any, name, value string) {
	t.Helper()
	if slices.Contains(notOurs, name) {
		return
	}
	known, file := strings.CutSuffix(name, "_FILE")
	got, ok := settings[known]
	switch {
	case !ok:
		t.Errorf("the service has no setting %s", known)
	case file || strings.HasSuffix(name, "_ADDR") || strings.HasSuffix(name, "_URL"):
		// Secrets are masked, and the test changes the addresses.
	case got != value:
		t.Errorf("%s is %q in the service, and %q in the manifest", name, got, value)
	}
}

// checkProbes asks a service whose database is away. It must not be restarted for that, and it
// must get no work.
func checkProbes(t *testing.T, address string, c core.Container) {
	t.Helper()
	if c.LivenessProbe == nil {
		return // a Job
	}
	for _, probe := range []struct {
		*core.Probe
		want int
	}{{c.LivenessProbe, http.StatusOK}, {c.ReadinessProbe, http.StatusServiceUnavailable}} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+probe.HTTPGet.Path, nil)
		must(t, err)
		response, err := http.DefaultClient.Do(request)
		must(t, err)
		must(t, response.Body.Close())
		if response.StatusCode != probe.want || probe.HTTPGet.Port.StrVal != "ops" {
			t.Errorf("%s at the port %s answers %s", probe.HTTPGet.Path, probe.HTTPGet.Port.StrVal, response.Status)
		}
	}
}
