package observe

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/transactional-outbox/test/servers"
	"example.com/transactional-outbox/test/servers/process"
)

// timeout limits the start and the end of Prometheus.
const timeout = 60 * time.Second

// Prometheus is a private server for a test.
type Prometheus struct {
	testing.TB
	url string
}

// Program returns the path of prometheus or promtool: from PATH, or the one that `make verify` has
// unpacked.
func Program(tb testing.TB, root, name string) string {
	tb.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath(filepath.Join(root, "build/tools/prometheus/usr/bin", name))
	}
	if err != nil {
		tb.Fatalf("%v; run `make verify ARGS=proof`, which downloads it", err)
	}
	return path
}

// StartPrometheus starts a server with the repository's rules and jobs, but with other targets and
// intervals. The server ends with the test.
func StartPrometheus(tb testing.TB, root string, targets map[string]string, interval time.Duration) *Prometheus {
	tb.Helper()
	folder := tb.TempDir()
	file := filepath.Join(folder, "prometheus.yml")
	if err := os.WriteFile(file, []byte(configuration(tb, root, targets, interval)), 0o600); err != nil {
		tb.Fatal(err)
	}
	p := &Prometheus{TB: tb}
	log := filepath.Join(folder, "log")
	servers.StartOnFreePort(tb, log, func(address string) error {
		p.url = "http://" + address
		return p.run(log, exec.CommandContext(tb.Context(), Program(tb, root, "prometheus"), //nolint:gosec // Prometheus, with our own arguments
			"--config.file="+file, "--web.listen-address="+address,
			"--storage.tsdb.path="+filepath.Join(folder, "data"), "--enable-feature=exemplar-storage"))
	})
	return p
}

// Draw draws the dashboards into a folder. It fails if a panel has no data, or a text is cut off.
func (p *Prometheus) Draw(root, folder string) (output []byte, err error) {
	draw := exec.CommandContext(p.Context(), "scripts/draw", p.url, folder, "2", "1") //nolint:gosec // our own arguments
	draw.Dir = root
	return draw.CombinedOutput()
}

// run starts the server, and returns when it is ready.
func (p *Prometheus) run(log string, command *exec.Cmd) error {
	p.Helper()
	server, err := process.Start(command, process.WithParent, log)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		if err := server.End(ctx, syscall.SIGTERM); err != nil {
			p.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(p.Context(), timeout)
	defer cancel()
	if err := server.AwaitReady(ctx, p.ready); err != nil {
		return fmt.Errorf("Prometheus: %w; the end of its log:\n%s", err, process.LastLines(log))
	}
	return nil
}

var (
	intervals = regexp.MustCompile(`(scrape|evaluation)_interval: \S+`)
	ruleFiles = regexp.MustCompile(`rule_files: \[(\S+)\]`)
	byName    = regexp.MustCompile(`dns_sd_configs:\s+- \{names: \[(\S+)\], type: A, port: (\d+), .+\}`)
)

func configuration(tb testing.TB, root string, targets map[string]string, interval time.Duration) string {
	tb.Helper()
	folder, err := filepath.Abs(filepath.Join(root, "prometheus"))
	if err != nil {
		tb.Fatal(err)
	}
	text, err := fs.ReadFile(os.DirFS(folder), "prometheus.yml")
	if err != nil {
		tb.Fatal(err)
	}
	config := intervals.ReplaceAllString(string(text), "${1}_interval: "+interval.String())
	config = ruleFiles.ReplaceAllString(config, "rule_files: ["+folder+"/$1]")
	config = byName.ReplaceAllString(config, "static_configs: [{targets: [$1:$2]}]")
	for target, instead := range targets {
		if !strings.Contains(config, "["+target+"]") {
			tb.Fatalf("prometheus.yml has no target %s", target)
		}
		config = strings.ReplaceAll(config, "["+target+"]", "["+instead+"]")
	}
	return config
}

func (p *Prometheus) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/-/ready", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %s", response.Status)
	}
	return nil
}
