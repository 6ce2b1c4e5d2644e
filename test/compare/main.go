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
	"path/filepath"
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
	defer func() { err = errors.Join(err, s.close()) }()
	if err != nil {
		return err
	}
	if err := build(ctx, s.folder, rows); err != nil {
		return err
	}
	suite.Progress("%d rows to run, SEED=%d", len(rows), o.Seed)
	results, err := runAll(ctx, s, rows)
	if err != nil {
		return err
	}
	if err := printTables(os.Stdout, results); err != nil {
		return err
	}
	return errors.Join(suite.WriteJSON(filepath.Join(o.Output, "compare.json"), results), verdict(os.Stderr, rows, results))
}

// runAll runs the rows one after the other. A row that fails has no result, and the verdict says so.
func runAll(ctx context.Context, s *allServers, rows []row) (results []result, err error) {
	for _, r := range rows {
		began := time.Now()
		result, err := s.run(ctx, r)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			suite.Progress("%s FAILED: %v", r, err)
			if err := s.start(ctx); err != nil {
				return nil, err
			}
			continue
		}
		results = append(results, result)
		suite.Progress("%s, %.0f s: %s", r, time.Since(began).Seconds(), result)
	}
	return results, nil
}

const (
	designsProgram = "designs"
	peersProgram   = "peers"
)

// build builds the programs that the rows need. peers is a Go module of its own, so that only the
// rows that need it compile its libraries.
func build(ctx context.Context, folder string, rows []row) error {
	packages := map[string][]string{".": {"./" + services.Orders, "./" + services.Notifications}, "test": {"./compare/designs"}}
	if slices.ContainsFunc(rows, func(r row) bool { return len(r.design.modules) > 0 }) {
		packages["test/compare/peers"] = []string{"."}
	}
	for module, packages := range packages {
		command := exec.CommandContext(ctx, "go", append([]string{"build", "-buildvcs=false", "-o", folder + "/"}, packages...)...)
		command.Dir = module
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("building the programs: %w\n%s", err, output)
		}
	}
	return nil
}
