package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"

	"example.com/transactional-outbox/outbox/rabbitmq"
	"example.com/transactional-outbox/test/servers/process"
	"example.com/transactional-outbox/test/servicelog"
)

// peer is an outbox that other people maintain, with its settings.
type peer struct{ key, program, settings, left string }

// peersProgram is built from test/compare/peers, a Go module of its own.
const peersProgram = "peers"

// What is left to publish, by index: a count would read all rows.
const (
	leftOfRiver     = `SELECT EXISTS (SELECT FROM river_job WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled'))`
	leftOfWatermill = `SELECT EXISTS (SELECT FROM watermill_events_to_forward, watermill_offsets_events_to_forward
		WHERE (transaction_id, "offset") > (last_processed_transaction_id, offset_acked))`
)

var peers = []peer{
	{"river", "river", "TUNED=", leftOfRiver},
	{"river_tuned", "river", "TUNED=true", leftOfRiver},
	{"watermill", "watermill-forwarder", "TUNED=", leftOfWatermill},
	{"watermill_tuned", "watermill-forwarder", "TUNED=true", leftOfWatermill},
}

func (b *bench) buildPeers(ctx context.Context) error {
	build := exec.CommandContext(ctx, "go", "build", "-o", b.folder+"/", ".") //nolint:gosec // our own folder
	build.Dir = filepath.Join("test", "compare", peersProgram)
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", build.Dir, err, output)
	}
	return nil
}

// drainPeers publishes the same backlog with each peer.
func (b *bench) drainPeers(ctx context.Context) error {
	for _, p := range peers {
		progress("drain, %s", p.key)
		if err := b.drainPeer(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.key, err)
		}
	}
	return nil
}

func (b *bench) drainPeer(ctx context.Context, p peer) error {
	d, err := b.newDatabase(ctx)
	if err != nil {
		return err
	}
	defer d.drop()
	if err := d.fill(ctx, b.Events, "drain"); err != nil {
		return err
	}
	url, drop, err := b.newVirtualHost(ctx)
	if err != nil {
		return err
	}
	defer drop()
	err = inSession(ctx, url, func(s *rabbitmq.Session) error { return s.Declare(boundQueue()) })
	if err != nil {
		return err
	}
	program := filepath.Join(b.folder, peersProgram)
	environment := []string{"DATABASE_URL=" + d.url, "AMQP_URL=" + url, p.settings}
	fill := exec.CommandContext(ctx, program, "fill", p.program) //nolint:gosec // our own program
	fill.Env = environment
	if output, err := fill.CombinedOutput(); err != nil {
		return fmt.Errorf("filling its outbox: %w\n%s", err, output)
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	run := exec.Command(program, p.program) //nolint:gosec,noctx // our own program; end stops it
	run.Env = environment
	s := service{name: p.key, log: filepath.Join(b.folder, b.newName()+".log")}
	before := usedCPU()
	if s.process, err = process.Start(run, process.WithParent, s.log); err != nil {
		return err
	}
	defer s.end() //nolint:contextcheck // cleanup must also run after ctx has ended
	if _, err := s.logged(ctx, peerServes); err != nil {
		return err
	}
	if err := d.awaitFalse(ctx, p.left); err != nil {
		return err
	}
	b.addCPU(p.key+"_drain_cpu_us", before, b.Events)
	return b.addRun(ctx, s, peerStarts, b.Events, p.key+"_drain_per_s", p.key+"_rss_mib")
}

// Messages of the peers' log.
const (
	peerStarts = "starting"
	peerServes = servicelog.TakingOrders // its tables exist
)

// addPeerRatios compares the peers with the best rate of bare publishing.
func (b *bench) addPeerRatios(best float64) {
	for _, p := range peers {
		b.samples.add(p.key+"_drain_ratio", b.samples.median(p.key+"_drain_per_s")/best)
	}
}
