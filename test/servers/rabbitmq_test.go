package servers_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/servers"
)

const definitions = `{"queues": [{"name": "survivor", "vhost": "/", "durable": true, "auto_delete": false,
	"arguments": {"x-queue-type": "quorum"}}]}`

func TestRabbitMQKeepsItsQueuesAndItsPort(t *testing.T) {
	t.Parallel()
	broker := servers.RabbitMQ(t)
	declareSurvivor(t, broker)

	must(t, broker.Kill())
	if broker.Running() {
		t.Error("it runs after a kill")
	}
	requireFree(t, broker.Port())
	must(t, broker.Start(shortContext(t)))

	queues, err := broker.Ctl(shortContext(t), "list_queues", "name", "type")
	must(t, err)
	if !strings.Contains(queues, "survivor\tquorum") {
		t.Errorf("after a kill and a start the queues are %q", queues)
	}
	must(t, broker.Stop(shortContext(t)))
	must(t, broker.Close())
	requireFree(t, broker.Ports()...)
}

func declareSurvivor(t *testing.T, broker *servers.RabbitMQServer) {
	file := filepath.Join(t.TempDir(), "definitions.json")
	must(t, os.WriteFile(file, []byte(definitions), 0o600))
	_, err := broker.Ctl(shortContext(t), "import_definitions", file)
	must(t, err)
}
