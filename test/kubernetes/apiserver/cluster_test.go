package apiserver_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	repository = "../../.."
	manifests  = repository + "/deploy/kubernetes"
	programs   = repository + "/build/kubernetes" // git ignores it
)

// startLimit is for a server on a busy machine.
const startLimit = 2 * time.Minute

// TestMain builds the programs that go.mod names as tools. The first time takes many minutes.
func TestMain(m *testing.M) {
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", programs+"/", "tool")
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	fmt.Println("building kube-apiserver, kubectl and etcd")
	if err := build.Run(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// cluster is an API server with an etcd of its own.
type cluster struct {
	*testing.T

	folder  string
	kubectl string
}

// newCluster starts both. They end with the test.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	kubectl, err := filepath.Abs(programs + "/kubectl")
	must(t, err)
	c := &cluster{T: t, folder: t.TempDir(), kubectl: kubectl}
	etcd, peer, api := freeAddress(t), freeAddress(t), freeAddress(t)
	c.start("server", // the name of the folder of etcd's program
		"--data-dir="+c.file("etcd"), "--unsafe-no-fsync", "--name=etcd",
		"--listen-client-urls=http://"+etcd, "--advertise-client-urls=http://"+etcd,
		"--listen-peer-urls=http://"+peer, "--initial-advertise-peer-urls=http://"+peer, "--initial-cluster=etcd=http://"+peer)
	c.write("key.pem", privateKey(t))
	c.write("tokens.csv", "admin-token,admin,admin,system:masters\n")
	_, port, _ := net.SplitHostPort(api)
	c.start("kube-apiserver",
		"--etcd-servers=http://"+etcd, "--bind-address=127.0.0.1", "--secure-port="+port, "--cert-dir="+c.file("certificates"),
		"--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file="+c.file("key.pem"),
		"--service-account-signing-key-file="+c.file("key.pem"),
		"--authorization-mode=RBAC", "--token-auth-file="+c.file("tokens.csv"))
	c.write("kubeconfig", fmt.Sprintf(kubeconfig, api))
	c.awaitReady()
	return c
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://%s", insecure-skip-tls-verify: true}}]
users: [{name: admin, user: {token: admin-token}}]
contexts: [{name: test, context: {cluster: test, user: admin}}]
current-context: test
`

func (c *cluster) file(name string) string { return filepath.Join(c.folder, name) }

func (c *cluster) write(name, content string) {
	c.Helper()
	must(c.T, os.WriteFile(c.file(name), []byte(content), 0o600))
}

// start runs a server until the end of the test. If the test has failed, it prints the end of its
// log.
func (c *cluster) start(program string, arguments ...string) {
	c.Helper()
	log, err := os.Create(c.file(program + ".log"))
	must(c.T, err)
	command := exec.Command(filepath.Join(programs, program), arguments...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(c.T, command.Start())
	c.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = log.Close()
		if content, err := os.ReadFile(log.Name()); err == nil && c.Failed() {
			c.Logf("the end of the log of %s:\n%s", program, content[max(0, len(content)-4000):])
		}
	})
}

// awaitReady returns when the API server has made what it makes after a start.
func (c *cluster) awaitReady() {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), startLimit)
	defer cancel()
	for tick := time.NewTicker(200 * time.Millisecond); ; {
		_, log, err := c.run(ctx, "", "get", "--raw=/readyz")
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			c.Fatalf("the API server is not ready: %v\n%s", err, log)
		}
	}
}

// run runs kubectl with this text on its stdin.
func (c *cluster) run(ctx context.Context, stdin string, arguments ...string) (out, log string, err error) {
	command := exec.CommandContext(ctx, c.kubectl, append([]string{"--kubeconfig=" + c.file("kubeconfig"), "--cache-dir=" + c.file("cache")}, arguments...)...)
	var stdout, stderr bytes.Buffer
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(stdin), &stdout, &stderr
	err = command.Run()
	return stdout.String(), stderr.String(), err
}

// must runs kubectl, which must succeed without a warning.
func (c *cluster) must(stdin string, arguments ...string) string {
	c.Helper()
	out, log, err := c.run(c.Context(), stdin, arguments...)
	if err != nil || strings.Contains(log, "Warning") {
		c.Fatalf("kubectl %q: %v\n%s", arguments, err, log)
	}
	return out
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, listener.Close()) }()
	return listener.Addr().String()
}

func privateKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
