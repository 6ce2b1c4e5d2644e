package servers

import (
	"context"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"example.com/transactional-outbox/test/env/process"
)

func (s *RabbitMQServer) startEpmd(ctx context.Context) (err error) {
	if s.first != s {
		return s.first.startEpmd(ctx)
	}
	if s.epmd.Alive() {
		return nil
	}
	if s.epmd, err = s.run(s.epmdPath, &s.record.Epmd); err != nil {
		return err
	}
	return awaitStart(ctx, s.epmd, s.folder, s.askEpmd)
}

// askEpmd asks for all names. The answer begins with epmd's port.
func (s *RabbitMQServer) askEpmd(ctx context.Context) error {
	return ask(ctx, time.Second, addressOf(s.record.EpmdPort), "\x00\x01n", func(r io.Reader) error {
		return binary.Read(r, binary.BigEndian, new(uint32))
	})
}

func (s *RabbitMQServer) startBroker(ctx context.Context) (err error) {
	if !s.Running() {
		if s.broker, err = s.run(filepath.Join(s.binaries, "rabbitmq-server"), &s.record.Broker); err != nil {
			return err
		}
	}
	return awaitStart(ctx, s.broker, s.folder, func(ctx context.Context) error {
		return AMQPAnswers(ctx, addressOf(s.record.Port))
	})
}

func (s *RabbitMQServer) run(path string, id *process.ID) (*process.Process, error) {
	cmd := exec.Command(path)
	cmd.Dir, cmd.Env = string(s.folder), s.environment()
	p, err := process.Start(cmd, s.lifetime, s.folder.log())
	if err != nil {
		return nil, err
	}
	*id = p.ID
	return p, s.folder.writeRecord(s.record)
}

// environment is the whole environment of the broker, epmd and rabbitmqctl. Of the caller's
// environment it has only PATH, so that it never refers to the machine's own RabbitMQ.
func (s *RabbitMQServer) environment() []string {
	erlang := ""
	if s.lifetime == process.WithParent {
		erlang = "+S 1:1" // one scheduler: tests run several brokers on few cores
	}
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"LANG=C.UTF-8",
		"HOME=" + s.home(),

		"RABBITMQ_NODENAME=" + s.node,
		"RABBITMQ_NODE_IP_ADDRESS=" + localhost,
		"RABBITMQ_NODE_PORT=" + strconv.Itoa(s.record.Port),
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(s.record.DistPort),
		"ERL_EPMD_PORT=" + strconv.Itoa(s.first.record.EpmdPort),
		"ERL_EPMD_ADDRESS=" + localhost,
		"ERL_FLAGS=-kernel inet_dist_use_interface {127,0,0,1}",
		// Any free port, so that several rabbitmqctl can run at the same time.
		"RABBITMQ_CTL_DIST_PORT_MIN=0",
		"RABBITMQ_CTL_DIST_PORT_MAX=0",

		"RABBITMQ_MNESIA_BASE=" + s.folder.file("data"),
		"RABBITMQ_LOG_BASE=" + string(s.folder),
		"RABBITMQ_LOGS=-", // stdout, which is our log
		"RABBITMQ_CONFIG_FILE=" + s.folder.file("rabbitmq.conf"),
		"RABBITMQ_CONF_ENV_FILE=" + s.folder.file("rabbitmq-env.conf"), // not the machine's
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + s.folder.file("enabled_plugins"),

		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none " + erlang + " " + s.extraErlang, // no busy waiting
		// With this, the start script replaces itself by the broker instead of waiting for it.
		// So the process that we start is the one that we kill.
		"RUNNING_UNDER_SYSTEMD=true",
	}
}
