package kubernetes_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

// TestTheServicesTakeTheSettingsOfTheirPods runs each container's command with its settings and its
// files. The service logs the settings that it knows, so a name that it does not know is found.
func TestTheServicesTakeTheSettingsOfTheirPods(t *testing.T) {
	t.Parallel()
	binaries := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binaries+"/", "./order-service", "./notification-service")
	build.Dir = repository
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	each(t, func(t *testing.T, overlay string) {
		for _, w := range workloads(t, overlay) {
			service, ours := w.ours()
			if !ours {
				continue
			}
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				environment := w.environment(t, overlay)
				for name, value := range environment { // readers replace the addresses by their own
					environment[name] = strings.Replace(value, "@example.com", "@shop.test", 1)
				}
				for port, name := range map[string]string{"http": "HTTP_ADDR", "ops": "OPS_ADDR"} {
					if n := w.port(port); n != 0 && environment[name] != fmt.Sprintf("0.0.0.0:%d", n) {
						t.Errorf("%s is %q, and the port is %d", name, environment[name], n)
					}
				}
				settings := run(t, binaries+"/"+service, overlay, w, environment)
				for name, value := range environment {
					checkSetting(t, settings, name, value)
				}
				checkProbes(t, w.container())
			})
		}
	})
}

// run starts a container's command, and returns the settings that it logs. It ends the process at
// the end of the test, by SIGTERM.
func run(t *testing.T, binary, overlay string, w workload, environment map[string]string) (settings map[string]any) {
	t.Helper()
	files := mount(t, overlay, w)
	arguments := w.container().Args
	if arguments[0] == "migrate" {
		arguments = []string{"serve"} // has the same settings, and logs them
		environment = maps.Clone(environment)
		environment["AMQP_URL"] = secretsLike["amqp-url"] // migrate needs none of these
		environment["SMTP_URL"], environment["MAIL_FROM"], environment["DEFAULT_RECIPIENT"] = "log:", "a@shop.test", "b@shop.test"
	}
	command := exec.CommandContext(t.Context(), binary, arguments...)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = time.Minute
	for name, value := range environment {
		command.Env = append(command.Env, name+"="+strings.Replace(value, "/secrets/", files+"/", 1))
	}
	command.Env = append(command.Env, "HTTP_ADDR=127.0.0.1:0", "OPS_ADDR=127.0.0.1:0")
	var errors bytes.Buffer
	command.Stderr = &errors
	out, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	t.Cleanup(func() { _ = command.Wait() }) // after t.Context has ended
	for lines := bufio.NewScanner(out); settings["msg"] != "starting"; {
		if !lines.Scan() {
			_ = command.Wait()
			t.Fatalf("%s did not start: %s", w.name, errors.String())
		}
		settings = nil // of the line before
		_ = json.Unmarshal(lines.Bytes(), &settings)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return settings
}

// secretsLike are the secrets of production, by their file. Nothing answers at their addresses.
var secretsLike = map[string]string{
	"database-url": "postgres://somebody:4711@127.0.0.1:1/somewhere",
	"amqp-url":     "amqp://somebody:4711@127.0.0.1:1/",
	"smtp-url":     "smtps://somebody:4711@mail.example.com:465",
}

// mount writes the files that a pod mounts at /secrets, and returns their folder. Those of the demo
// are the overlay's own.
func mount(t *testing.T, overlay string, w workload) string {
	t.Helper()
	folder := t.TempDir()
	if mounts := w.container().VolumeMounts; len(mounts) != 1 || mounts[0].MountPath != "/secrets" {
		t.Errorf("%s mounts %v", w.name, mounts)
	}
	for name, items := range w.secrets() {
		for _, item := range items {
			content, known := secretsLike[item.Path]
			switch {
			case overlay == "demo":
				content, known = demoSecret(t, name, item.Key)
			case item.Path == "database-ca.crt":
				content, known = certificate(t), true
			}
			if !known {
				t.Errorf("%s mounts %s of the secret %s, which is not known", w.name, item.Key, name)
			}
			must(t, os.WriteFile(filepath.Join(folder, item.Path), []byte(content), 0o600))
		}
	}
	return folder
}

func demoSecret(t *testing.T, name, key string) (content string, found bool) {
	t.Helper()
	for _, s := range all[core.Secret](t, "demo", "Secret") {
		if s.Name == name {
			return string(s.Data[key]), len(s.Data[key]) > 0
		}
	}
	return "", false
}

func certificate(t *testing.T) string {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
}

// notOurs are variables that Go's runtime and the driver of PostgreSQL read.
var notOurs = []string{"GOMEMLIMIT", "PGSSLMODE", "PGSSLROOTCERT"}

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

// checkProbes: a service whose database is away must not be restarted for that, and must get no
// work. So its liveness is not /readyz.
func checkProbes(t *testing.T, c core.Container) {
	t.Helper()
	if c.LivenessProbe == nil {
		return // a Job
	}
	for path, probe := range map[string]*core.Probe{"/livez": c.LivenessProbe, "/readyz": c.ReadinessProbe} {
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != "ops" {
			t.Errorf("the probe %s asks %s at the port %s", path, probe.HTTPGet.Path, probe.HTTPGet.Port.StrVal)
		}
	}
}
