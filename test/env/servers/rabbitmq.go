package servers

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

	"example.com/transactional-outbox/test/env/process"
)

// MetricsPlugin gives a broker an endpoint with metrics for Prometheus.
const MetricsPlugin = "rabbitmq_prometheus"

// RabbitMQServer is a private RabbitMQ on 127.0.0.1 with the user guest. It has two processes:
// the broker, and epmd, from which Erlang programs such as rabbitmqctl get the broker's port.
type RabbitMQServer struct {
	folder        folder
	binaries      string
	epmdPath      string
	plugins       []string
	definitions   string // a file that each start imports; may be ""
	extraSettings string
	extraErlang   string // arguments of the broker's Erlang, such as "-rabbit key value"
	lifetime      process.Lifetime
	node          string          // its name for Erlang
	first         *RabbitMQServer // of the cluster: its epmd and its cookie are for all nodes
	broker        *process.Process
	canImport     *process.Process // the broker, once it has started completely
	spareVhosts   []string         // created, and not yet used
	vhostBatch    int              // how many were created last
	epmd          *process.Process // of the first node
	record        rabbitMQRecord
}

type rabbitMQRecord struct {
	Port        int        `json:"port"`
	DistPort    int        `json:"dist_port"` // for other Erlang programs
	EpmdPort    int        `json:"epmd_port"`
	MetricsPort int        `json:"metrics_port"` // of the plugin rabbitmq_prometheus
	Broker      process.ID `json:"broker"`
	Epmd        process.ID `json:"epmd"`
}

// NewRabbitMQ returns the broker in this folder. It may run, be stopped, or not exist yet: then
// Start creates it.
func NewRabbitMQ(path string, lifetime process.Lifetime, plugins ...string) (*RabbitMQServer, error) {
	return newRabbitMQNode(path, lifetime, "outbox@localhost", nil, plugins)
}

// newRabbitMQNode returns a node of the cluster of first. Without first, it is the first node.
func newRabbitMQNode(path string, lifetime process.Lifetime, node string, first *RabbitMQServer, plugins []string) (*RabbitMQServer, error) {
	s := &RabbitMQServer{lifetime: lifetime, plugins: plugins, node: node}
	if s.first = first; first == nil {
		s.first = s
	}
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
	if !s.Running() {
		err = choosePorts(&s.record.Port, &s.record.DistPort, &s.record.MetricsPort)
	}
	if err == nil && s.first == s && !s.epmd.Alive() { // it may run while its broker is stopped
		err = choosePorts(&s.record.EpmdPort)
	}
	return s, err
}

// MetricsAddress returns the address of the metrics, if the broker has [MetricsPlugin].
func (s *RabbitMQServer) MetricsAddress() string { return addressOf(s.record.MetricsPort) }

// PID returns the number of the broker's process, which has started all its others.
func (s *RabbitMQServer) PID() int { return s.broker.PID }

// Running reports whether the broker's process lives.
func (s *RabbitMQServer) Running() bool { return s.broker.Alive() }

// URL returns the connection string of one virtual host.
func (s *RabbitMQServer) URL(vhost string) string {
	return "amqp://guest:guest@" + addressOf(s.record.Port) + "/" + url.PathEscape(vhost)
}

// Start starts the broker unless it runs, and waits until it accepts connections. It starts epmd
// before: otherwise the broker would start one that survives it.
func (s *RabbitMQServer) Start(ctx context.Context) error {
	if err := s.configure(); err != nil {
		return fmt.Errorf("configure RabbitMQ: %w", err)
	}
	if err := s.startEpmd(ctx); err != nil {
		return fmt.Errorf("epmd did not start: %w", err)
	}
	if err := s.startBroker(ctx); err != nil {
		return fmt.Errorf("RabbitMQ did not start: %w", err)
	}
	return nil
}

// Stop shuts the broker down. Its epmd still runs, for the next Start or Close.
func (s *RabbitMQServer) Stop(ctx context.Context) error {
	return s.broker.End(ctx, syscall.SIGTERM)
}

// Kill ends the broker with SIGKILL.
func (s *RabbitMQServer) Kill() error {
	if !s.Running() {
		return nil
	}
	return kill(s.broker)
}

// Close ends the broker and its epmd, and releases their ports. It keeps the folder.
func (s *RabbitMQServer) Close() error {
	defer releasePorts(s.record.Port, s.record.DistPort, s.record.MetricsPort)
	if s.first == s {
		defer releasePorts(s.record.EpmdPort)
	}
	if err := s.Kill(); err != nil || !s.epmd.Alive() {
		return err
	}
	return kill(s.epmd)
}

// Ctl runs rabbitmqctl for this broker, and returns its output.
func (s *RabbitMQServer) Ctl(ctx context.Context, args ...string) (string, error) {
	return s.runTool(ctx, "rabbitmqctl", args...)
}

func (s *RabbitMQServer) runTool(ctx context.Context, program string, args ...string) (string, error) {
	tool := exec.CommandContext(ctx, filepath.Join(s.binaries, program), append([]string{"--quiet"}, args...)...)
	tool.Env = s.environment()
	output, err := tool.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, output)
	}
	return string(output), nil
}

// Alarm raises or ends the memory alarm, in which the broker blocks publishers.
func (s *RabbitMQServer) Alarm(ctx context.Context, raised bool) error {
	limit := []string{"0.4"}
	if raised {
		limit = []string{"absolute", "1MB"}
	}
	_, err := s.Ctl(ctx, append([]string{"set_vm_memory_high_watermark"}, limit...)...)
	return err
}

// OnQueue calls a function of Erlang with the process of a queue: sys:suspend, or sys:resume.
func (s *RabbitMQServer) OnQueue(ctx context.Context, queue, function string) error {
	_, err := s.Ctl(ctx, "eval", fmt.Sprintf(
		`{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"/">>, queue, <<"%s">>)), %s(amqqueue:get_pid(Q)).`, queue, function))
	return err
}

// home holds the Erlang cookie.
func (s *RabbitMQServer) home() string { return s.first.folder.file("home") }

func (s *RabbitMQServer) configure() error {
	if err := os.MkdirAll(s.home(), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(s.folder.file("rabbitmq.conf"), []byte(s.settings()), 0o600); err != nil {
		return err
	}
	plugins := "[" + strings.Join(s.plugins, ",") + "]."
	return os.WriteFile(s.folder.file("enabled_plugins"), []byte(plugins), 0o600)
}

// settings returns rabbitmq.conf. It has the settings of a plugin only if the plugin is enabled:
// otherwise the broker would not start.
func (s *RabbitMQServer) settings() (settings string) {
	if slices.Contains(s.plugins, MetricsPlugin) {
		settings += fmt.Sprintf("prometheus.tcp.ip = %s\nprometheus.tcp.port = %d\n", localhost, s.record.MetricsPort)
	}
	if s.definitions != "" {
		settings += "load_definitions = " + s.definitions + "\n"
	}
	return settings + s.extraSettings
}
