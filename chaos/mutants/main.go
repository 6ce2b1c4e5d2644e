// Command mutants breaks the services' code, one small edit at a time, and wants a
// scenario of chaos to fail for each: a checker that has never been seen red proves
// nothing.
//
// It edits a copy of the tree. Chaos itself is built from the tree as it is, so that
// what judges is never what was broken.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1) //nolint:gocritic // the process ends: nothing waits for signals any more
	}
}

func run(ctx context.Context) (err error) {
	folder, err := os.MkdirTemp("", "chaos-mutants-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	program := filepath.Join(folder, "chaos")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./chaos") //nolint:gosec // a folder of our own
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building chaos: %w\n%s", err, output)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "MUTANT\tSCENARIO\tSEEN\n")
	var errs []error
	for _, m := range chosen() {
		seen, err := m.tryOn(ctx, folder, program)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
			seen = "no: " + strings.SplitN(err.Error(), "\n", 2)[0]
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", m.name, m.scenario, seen)
	}
	return errors.Join(append(errs, table.Flush())...)
}

// chosen are the mutants that ONLY names, or all.
func chosen() []mutant {
	only := os.Getenv("ONLY")
	if only == "" {
		return mutants
	}
	names := strings.Split(only, ",")
	return slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool { return !slices.Contains(names, m.name) })
}

// tryOn runs the scenario on a mutant, and returns what was red.
func (m mutant) tryOn(ctx context.Context, folder, program string) (string, error) {
	tree := filepath.Join(folder, m.name)
	if err := copyTree(".", tree); err != nil {
		return "", err
	}
	if err := m.apply(tree); err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", m.name, m.does)
	chaos := exec.CommandContext(ctx, program)
	// A second SIGTERM is not needed, but time: it ends its servers.
	chaos.Cancel = func() error { return chaos.Process.Signal(syscall.SIGTERM) }
	chaos.WaitDelay = time.Minute
	chaos.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us, and comes there as a SIGTERM
	chaos.Env = append(os.Environ(), "ONLY="+m.scenario, "SOURCE="+tree, "OUTPUT="+tree, "SOAK=0", "PATIENCE=40s")
	chaos.Stdout, chaos.Stderr = os.Stderr, os.Stderr
	runErr := chaos.Run()
	content, err := os.ReadFile(filepath.Join(tree, "chaos.json")) //nolint:gosec // a folder of our own
	if err != nil {
		return "", errors.Join(runErr, err)
	}
	return judge(content)
}

// judge wants a promise to be broken: that the harness came to no end is none.
func judge(content []byte) (string, error) {
	var results []struct {
		Pass   bool
		Broken map[string][]string
	}
	if err := json.Unmarshal(content, &results); err != nil {
		return "", err
	}
	var broken []string
	for _, r := range results {
		if len(r.Broken["harness"]) > 0 {
			return "", fmt.Errorf("the scenario could not be run: %s", r.Broken["harness"][0])
		}
		for promise, why := range r.Broken {
			broken = append(broken, fmt.Sprintf("%s (%s)", promise, why[0]))
		}
	}
	if len(broken) == 0 {
		return "", errors.New("the scenario stayed green")
	}
	slices.Sort(broken)
	return "red: " + strings.Join(broken, ", "), nil
}
