package servers

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.com/transactional-outbox/test/env/process"
)

const definitionsFile = "deploy/rabbitmq/definitions.json"

// definitions is the file that RabbitMQ imports: users and their permissions.
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

// importMutex allows one import at a time: two imports that create the same user would fail.
var importMutex sync.Mutex

// CreateVhost creates a virtual host unless it exists. The users of
// deploy/rabbitmq/definitions.json, in the repository at root, get the permissions that they
// have in "/". Guest may do everything.
func (s *RabbitMQServer) CreateVhost(ctx context.Context, root, vhost string) error {
	importMutex.Lock()
	defer importMutex.Unlock()
	return s.createVhosts(ctx, root, []string{vhost})
}

// mostSpareVhosts bounds how many virtual hosts are created before a test asks for them.
const mostSpareVhosts = 16

// NewVhost creates a virtual host, like CreateVhost, and returns its name. It creates more of them
// each time, for the next calls: an import costs a second of a processor, however many it creates.
func (s *RabbitMQServer) NewVhost(ctx context.Context, root string) (name string, err error) {
	importMutex.Lock()
	defer importMutex.Unlock()
	if len(s.spareVhosts) == 0 {
		s.vhostBatch = min(max(1, 2*s.vhostBatch), mostSpareVhosts)
		var names []string
		for range s.vhostBatch {
			names = append(names, "t"+strings.ToLower(rand.Text())[:10])
		}
		if err := s.createVhosts(ctx, root, names); err != nil {
			return "", err
		}
		s.spareVhosts = names
	}
	name, s.spareVhosts = s.spareVhosts[0], s.spareVhosts[1:]
	return name, nil
}

// createVhosts needs importMutex.
func (s *RabbitMQServer) createVhosts(ctx context.Context, root string, vhosts []string) error {
	content, err := fs.ReadFile(os.DirFS(root), definitionsFile)
	if err != nil {
		return err
	}
	var d definitions
	if err := json.Unmarshal(content, &d); err != nil {
		return fmt.Errorf("%s: %w", definitionsFile, err)
	}
	users := slices.Concat(d.Permissions, []permission{{User: "guest", Configure: ".*", Write: ".*", Read: ".*"}})
	d.Vhosts, d.Permissions = nil, nil
	for _, vhost := range vhosts {
		d.Vhosts = append(d.Vhosts, map[string]any{"name": vhost})
		for _, p := range users {
			p.Vhost = vhost
			d.Permissions = append(d.Permissions, p)
		}
	}
	return s.importDefinitions(ctx, d)
}

func (s *RabbitMQServer) importDefinitions(ctx context.Context, d definitions) error {
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
	// The broker accepts connections a moment before it can import. Each rabbitmqctl starts an Erlang
	// system, which takes a second of a processor.
	if s.canImport != s.broker {
		if _, err := s.Ctl(ctx, "await_startup"); err != nil {
			return err
		}
		s.canImport = s.broker
	}
	_, err = s.Ctl(ctx, "import_definitions", file.Name())
	return err
}

// RabbitMQWithDefinitions is [RabbitMQ] with deploy/rabbitmq/definitions.json and
// deploy/rabbitmq/rabbitmq.conf of the repository at root. It has only the users of the
// definitions, so there is no guest.
func RabbitMQWithDefinitions(tb testing.TB, root string) *RabbitMQServer {
	tb.Helper()
	s, err := NewRabbitMQ(serverFolder(tb), process.WithParent)
	if err == nil {
		s.definitions, err = filepath.Abs(filepath.Join(root, definitionsFile))
	}
	if err == nil {
		s.extraSettings, err = readSettings(root)
	}
	if err != nil {
		tb.Fatal(err)
	}
	startUntilCleanup(tb, s, s.folder)
	return s
}

// readSettings reads deploy/rabbitmq/rabbitmq.conf without the path of the definitions, which
// is Compose's.
func readSettings(root string) (settings string, err error) {
	content, err := os.ReadFile(filepath.Join(root, "deploy", "rabbitmq", "rabbitmq.conf"))
	for line := range strings.Lines(string(content)) {
		if !strings.HasPrefix(line, "load_definitions") {
			settings += line
		}
	}
	return settings, err
}
