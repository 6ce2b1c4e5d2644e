package servertest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"example.com/transactional-outbox/internal/servertest/port"
	"example.com/transactional-outbox/internal/servertest/process"
)

// MetricsPlugin makes a broker show its metrics to Prometheus.
const MetricsPlugin = "rabbitmq_prometheus"

// RabbitMQServer is one RabbitMQ of our own, reachable on 127.0.0.1 as guest. It
// has two processes: the broker, and epmd, which tells Erlang programs such as
// rabbitmqctl where the broker is.
type RabbitMQServer struct {
	folder      folder
	binaries    string
	epmdPath    string
	plugins     []string
	definitions string // of users and permissions, which each start imports; "" is none
	configured  string // more settings
	lifetime    process.Lifetime
	broker      *process.Process
	epmd        *process.Process
	ports       ports
	record      rabbitMQRecord
}

type rabbitMQRecord struct {
	Port        int        `json:"port"`
	DistPort    int        `json:"dist_port"` // for other Erlang programs
	EpmdPort    int        `json:"epmd_port"`
	MetricsPort int        `json:"metrics_port"` // of the plugin rabbitmq_prometheus
	Broker      process.ID `json:"broker"`
	Epmd        process.ID `json:"epmd"`
}

// NewRabbitMQ returns the broker in this folder, which may be running, stopped, or
// yet to be created by Start.
func NewRabbitMQ(path string, lifetime process.Lifetime, plugins ...string) (*RabbitMQServer, error) {
	s := &RabbitMQServer{lifetime: lifetime, plugins: plugins}
	server, err := findBinary("rabbitmq-server", rabbitMQFolders)
	if err != nil {
		return nil, fmt.Errorf("RabbitMQ: %w; install the package rabbitmq-server", err)
	}
	s.binaries = filepath.Dir(server)
	if s.epmdPath, err = findBinary("epmd", epmdFolders); err != nil {
		return nil, fmt.Errorf("RabbitMQ: Erlang's %w; install the package erlang-base", err)
	}
	if s.folder, err = openFolder(path, &s.record); err != nil {
		return nil, fmt.Errorf("open RabbitMQ's folder: %w", err)
	}
	s.broker, s.epmd = process.Find(s.record.Broker), process.Find(s.record.Epmd)
	if s.ports.fixed = s.Running(); !s.ports.fixed {
		s.ports.numbers = []*int{&s.record.Port, &s.record.DistPort, &s.record.MetricsPort}
	}
	if !s.epmd.Alive() { // else it listens, also while its broker is stopped
		s.ports.numbers = append(s.ports.numbers, &s.record.EpmdPort)
	}
	return s, s.ports.reserve()
}

// Port may change with the first Start, and then stays the same.
func (s *RabbitMQServer) Port() int { return s.record.Port }

// MetricsAddress is where a broker with the plugin rabbitmq_prometheus shows its metrics.
func (s *RabbitMQServer) MetricsAddress() string { return port.Address(s.record.MetricsPort) }

// Running reports whether the broker's process lives.
func (s *RabbitMQServer) Running() bool { return s.broker.Alive() }

// URL returns the connection string of one virtual host.
func (s *RabbitMQServer) URL(vhost string) string {
	return "amqp://guest:guest@" + port.Address(s.record.Port) + "/" + url.PathEscape(vhost)
}

// Start starts the broker unless it runs, and returns when it accepts connections.
func (s *RabbitMQServer) Start(ctx context.Context) error {
	return s.ports.start(ctx, s.folder, s)
}

// Stop ends the broker in order. Its epmd stays, for the next Start or Close.
func (s *RabbitMQServer) Stop(ctx context.Context) error {
	return s.broker.End(ctx, syscall.SIGTERM)
}

// Kill ends the broker at once, with no time to write anything.
func (s *RabbitMQServer) Kill() error {
	if !s.Running() {
		return nil
	}
	return kill(s.broker)
}

// Close ends the broker and its epmd, and frees their ports. Its folder stays.
func (s *RabbitMQServer) Close() error {
	defer s.ports.release()
	return s.end()
}

func (s *RabbitMQServer) end() error {
	if err := s.Kill(); err != nil || !s.epmd.Alive() {
		return err
	}
	return kill(s.epmd)
}

// Ctl runs rabbitmqctl against this broker and returns what it prints.
func (s *RabbitMQServer) Ctl(ctx context.Context, args ...string) (string, error) {
	ctl := exec.CommandContext(ctx, filepath.Join(s.binaries, "rabbitmqctl"), append([]string{"--quiet"}, args...)...)
	ctl.Env = s.environment()
	output, err := ctl.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("rabbitmqctl %s: %w: %s", strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

func (s *RabbitMQServer) configure() error {
	if err := os.MkdirAll(s.folder.file("home"), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(s.folder.file("rabbitmq.conf"), []byte(s.settings()), 0o600); err != nil {
		return err
	}
	plugins := "[" + strings.Join(s.plugins, ",") + "]."
	return os.WriteFile(s.folder.file("enabled_plugins"), []byte(plugins), 0o600)
}

// settings has those of a plugin only with the plugin: without it a broker does not start.
func (s *RabbitMQServer) settings() (settings string) {
	if slices.Contains(s.plugins, MetricsPlugin) {
		settings += fmt.Sprintf("prometheus.tcp.ip = %s\nprometheus.tcp.port = %d\n", localhost, s.record.MetricsPort)
	}
	if s.definitions != "" {
		settings += "load_definitions = " + s.definitions + "\n"
	}
	return settings + s.configured
}
