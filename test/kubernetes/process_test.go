package kubernetes_test

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
)

// build builds both services, and returns the folder.
func build(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	command := exec.CommandContext(t.Context(), "go", "build", "-o", folder+"/", "./order-service", "./notification-service")
	command.Dir = repository
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return folder
}

// process is a running service.
type process struct {
	settings map[string]any // as it logged them
	address  string         // where it answers operators
}

// run starts a container's command and returns when it answers operators. It ends the process at
// the end of the test, by SIGTERM.
func run(t *testing.T, binary string, w workload, environment map[string]string) process {
	t.Helper()
	files := mount(t, w)
	arguments := w.container().Args
	if arguments[0] == "migrate" {
		arguments = []string{"serve"} // has the same settings, and logs them
		environment = maps.Clone(environment)
		environment["AMQP_URL"] = "amqp://somebody:4711@127.0.0.1:1/" // migrate needs none of these
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
	p := readLog(out)
	t.Cleanup(func() { _ = command.Wait() }) // after t.Context has ended
	if p.address == "" {
		_ = command.Wait()
		t.Fatalf("%s did not start: %s", w.name, errors.String())
	}
	go func() { _, _ = bufio.NewReader(out).WriteTo(new(bytes.Buffer)) }()
	return p
}

// readLog reads until the service answers operators, or has ended.
func readLog(out interface{ Read([]byte) (int, error) }) (p process) {
	for lines := bufio.NewScanner(out); p.address == "" && lines.Scan(); {
		var line map[string]any
		if json.Unmarshal(lines.Bytes(), &line) != nil {
			continue
		}
		switch line["msg"] {
		case "starting":
			p.settings = line
		case "answering operators":
			p.address, _ = line["address"].(string)
		}
	}
	return p
}

// mount writes the files that a pod mounts at /secrets, and returns their folder.
func mount(t *testing.T, w workload) string {
	t.Helper()
	folder := t.TempDir()
	if mounts := w.container().VolumeMounts; len(mounts) != 1 || mounts[0].MountPath != "/secrets" {
		t.Errorf("%s mounts %v", w.name, mounts)
	}
	for name, items := range secrets(w) {
		for _, item := range items {
			must(t, os.WriteFile(filepath.Join(folder, item.Path), content(t, name, item), 0o600))
		}
	}
	return folder
}

// content returns the demo's secret, or else one that looks like a real one.
func content(t *testing.T, name string, item core.KeyToPath) []byte {
	t.Helper()
	if value := secretValue(t, name, item.Key); value != nil && !strings.HasSuffix(name, "-ca") && strings.Contains(t.Name(), "/demo/") {
		return value
	}
	switch item.Path {
	case "database-url":
		return []byte("postgres://somebody:4711@127.0.0.1:1/somewhere")
	case "amqp-url":
		return []byte("amqp://somebody:4711@127.0.0.1:1/")
	case "smtp-url":
		return []byte("smtps://somebody:4711@mail.example.com:465")
	default:
		return certificate(t)
	}
}

func certificate(t *testing.T) []byte {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	of := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, of, of, public, private)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
