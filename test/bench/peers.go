package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	"example.com/transactional-outbox/order-service/migrations"
	"example.com/transactional-outbox/outbox"
	"example.com/transactional-outbox/test/env/services"
	"example.com/transactional-outbox/test/suite"
)

// peer is an outbox that other people maintain, with its settings.
type peer struct{ key, program, settings, left string }

// peersProgram is built from test/compare/peers, a Go module of its own.
const peersProgram = "peers"

// What is left to publish, by index: a count would read all rows.
const (
	leftOfRiver     = `SELECT NOT EXISTS (SELECT FROM river_job WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled'))`
	leftOfWatermill = `SELECT NOT EXISTS (SELECT FROM watermill_events_to_forward, watermill_offsets_events_to_forward
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
func (b *bench) drainPeers(ctx context.Context, events []outbox.Event) error {
	for _, p := range peers {
		suite.Progress("drain, %s", p.key)
		if err := b.drainPeer(ctx, p, events); err != nil {
			return fmt.Errorf("%s: %w", p.key, err)
		}
	}
	return nil
}

func (b *bench) drainPeer(ctx context.Context, p peer, events []outbox.Event) error {
	return b.withDatabase(ctx, migrations.Schema, func(ctx context.Context, d database) error {
		if err := errors.Join(d.fill(ctx, events), declareQueue(ctx, d.broker)); err != nil {
			return err
		}
		return b.runPeer(ctx, p, d)
	})
}

func (b *bench) runPeer(ctx context.Context, p peer, d database) (err error) {
	program := filepath.Join(b.folder, peersProgram)
	environment := []string{"DATABASE_URL=" + d.url, "AMQP_URL=" + d.broker, p.settings}
	fill := exec.CommandContext(ctx, program, "fill", p.program) //nolint:gosec // our own program
	fill.Env = environment
	if output, err := fill.CombinedOutput(); err != nil {
		return fmt.Errorf("filling its outbox: %w\n%s", err, output)
	}
	if err := d.settle(ctx); err != nil {
		return err
	}
	s, err := b.start(ctx, peersProgram, p.program, peerServes, environment...)
	if err != nil {
		return err
	}
	defer end(s) //nolint:contextcheck // cleanup must also run after ctx has ended
	if err := d.await(ctx, p.left); err != nil {
		return err
	}
	return b.addRun(ctx, s, peerStarts, b.Events, p.key+"_drain_per_s", p.key+"_rss_mib")
}

// Messages of the peers' log.
const (
	peerStarts = "starting"
	peerServes = services.TakingOrders // its tables exist
)

// addPeerRatios compares the peers with the best rate of bare publishing.
func (b *bench) addPeerRatios() {
	for _, p := range peers {
		b.addRatio(p.key+"_drain_ratio", p.key+"_drain_per_s", "raw_publish_per_s")
	}
}
