// Command compare injects the same faults into popular designs of an outbox and into this project,
// and counts what each of them has lost.
//
// A row is one design under one fault:
//
//	load ─► order side ×2 ─► PostgreSQL
//	            │
//	            ▼
//	        RabbitMQ ─► tap
//	            ▼
//	        consumer side ─► PostgreSQL, mail server
//
// A design of the order side has a good consumer, and a design of the consumer side has this
// project's order-service. So a row shows the failures of one design only. Both sides are real
// processes on real servers. A process that ends is started again, as Kubernetes does it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"

	"example.com/transactional-outbox/test/env/services"
	"example.com/transactional-outbox/test/suite"
)

func main() {
	suite.Main("compare", printHelp, run)
}

func run(ctx context.Context) (err error) {
	o, err := readOptions()
	if err != nil {
		return err
	}
	rows := o.rows()
	s, err := openServers(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := build(ctx, s.Folder, rows); err != nil {
		return err
	}
	suite.Progress("%d rows to run, RUNS=%d, SEED=%d", len(rows), o.Runs, o.Seed)
	all := results{}
	for seed := o.Seed; seed < o.Seed+o.Runs; seed++ {
		if err := all.add(ctx, s, rows, seed); err != nil {
			return err
		}
	}
	if err := printTables(os.Stdout, all); err != nil {
		return err
	}
	return verdict(os.Stderr, rows, all)
}

// add runs the rows one after the other. A row that fails has no result, and the verdict says so.
func (all results) add(ctx context.Context, s *allServers, rows []row, seed uint64) error {
	for _, r := range rows {
		began := time.Now()
		result, err := s.run(ctx, r, seed)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			suite.Progress("%s FAILED: %v", r, err)
			if err := s.Start(ctx); err != nil {
				return err
			}
			continue
		}
		all[r.String()] = append(all[r.String()], result)
		suite.Progress("%s, %.0f s: %s, the last change %.1f s after the fault", r, time.Since(began).Seconds(), result, result.recovery)
	}
	return nil
}

const (
	designsProgram = "designs"
	peersProgram   = "peers"
)

// build builds the programs that the rows need. peers is a Go module of its own, so that only the
// rows that need it compile its libraries.
func build(ctx context.Context, folder string, rows []row) error {
	if err := services.Build(ctx, ".", folder, "-buildvcs=false"); err != nil {
		return err
	}
	programs := map[string]string{"test": "./compare/designs"}
	if slices.ContainsFunc(rows, func(r row) bool { return len(r.design.modules) > 0 }) {
		programs["test/compare/peers"] = "."
	}
	for module, program := range programs {
		command := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", folder+"/", program)
		command.Dir = module
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("building the programs: %w\n%s", err, output)
		}
	}
	return nil
}
