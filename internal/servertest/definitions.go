package servertest

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"example.com/transactional-outbox/internal/servertest/process"
)

const definitionsFile = "rabbitmq/definitions.json"

// definitions are what RabbitMQ imports: users, and what each may do in a virtual host.
type definitions struct {
	Users       json.RawMessage  `json:"users"`
	Vhosts      []map[string]any `json:"vhosts"`
	Permissions []permission     `json:"permissions"`
}

type permission struct {
	User      string `json:"user"`
	Vhost     string `json:"vhost"`
	Configure string `json:"configure"`
	Write     string `json:"write"`
	Read      string `json:"read"`
}

// importing lets one import at a time happen: two that make the same user at the same moment
// would fail.
var importing sync.Mutex

// Provision makes a virtual host, unless it is there, in which the users of
// rabbitmq/definitions.json in the repository at root may do what they may do in "/",
// and guest everything.
func (s *RabbitMQServer) Provision(ctx context.Context, root, vhost string) error {
	content, err := fs.ReadFile(os.DirFS(root), definitionsFile)
	if err != nil {
		return err
	}
	var d definitions
	if err := json.Unmarshal(content, &d); err != nil {
		return fmt.Errorf("%s: %w", definitionsFile, err)
	}
	d.Vhosts = []map[string]any{{"name": vhost}}
	d.Permissions = append(d.Permissions, permission{User: "guest", Configure: ".*", Write: ".*", Read: ".*"})
	for i := range d.Permissions {
		d.Permissions[i].Vhost = vhost
	}
	return s.importDefinitions(ctx, d)
}

func (s *RabbitMQServer) importDefinitions(ctx context.Context, d definitions) error {
	importing.Lock()
	defer importing.Unlock()
	file, err := os.CreateTemp("", "definitions-*.json")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	if err := json.NewEncoder(file).Encode(d); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	// It accepts connections a moment before it imports anything.
	if _, err := s.Ctl(ctx, "await_startup"); err != nil {
		return err
	}
	_, err = s.Ctl(ctx, "import_definitions", file.Name())
	return err
}

// DefinedRabbitMQ is [RabbitMQ] with the users of rabbitmq/definitions.json in the
// repository at root, and nobody else: there is no guest. It has the settings of
// rabbitmq/rabbitmq.conf as well.
func DefinedRabbitMQ(tb testing.TB, root string) *RabbitMQServer {
	tb.Helper()
	s, err := NewRabbitMQ(serverFolder(tb), process.WithParent)
	if err == nil {
		s.definitions, err = filepath.Abs(filepath.Join(root, definitionsFile))
	}
	if err == nil {
		s.configured, err = readSettings(root)
	}
	if err != nil {
		tb.Fatal(err)
	}
	startFor(tb, s, s.folder)
	return s
}

// readSettings reads rabbitmq/rabbitmq.conf, but for where Compose has the definitions.
func readSettings(root string) (settings string, err error) {
	content, err := os.ReadFile(filepath.Join(root, "rabbitmq", "rabbitmq.conf"))
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(line, "load_definitions") {
			settings += line
		}
	}
	return settings, err
}

// As is the way to a broker for a user of rabbitmq/definitions.json, whose password in
// the demo is his name.
func As(user, broker string) string { return as(broker, user, user) }
