// Command mutants breaks the services' code with one small edit at a time. For each mutant, one
// chaos scenario or one test must fail. This shows that the checker finds real defects.
//
// The edits are in a copy of the tree. The chaos suite is built from the original tree.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"example.com/transactional-outbox/test/edit"
	"example.com/transactional-outbox/test/suite"
)

// mutant is a defect of the services.
type mutant struct {
	name, description string
	scenario          string // the one that must fail
	cluster           bool   // the scenario needs CLUSTER=1
	test              string // package and name of the test that must fail, if no scenario can
	edits             []edit.Edit
}

func main() { suite.Main("mutants", printHelp, run) }

func printHelp(w io.Writer) {
	fmt.Fprint(w, `Breaks the services' code with one small edit at a time, in a copy of the tree. A scenario
of make chaos or a test must fail for each mutant. Otherwise this program ends with an error. All
mutants take about half an hour, and one takes a minute or two. ONLY chooses some:

  ONLY=confirms-off,no-turnstile make chaos-mutants

`)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "MUTANT\tSCENARIO OR TEST\tWHAT IS BROKEN\n")
	for _, m := range mutants {
		fmt.Fprintf(table, "%s\t%s\t%s\n", m.name, m.scenario+m.test, m.description)
	}
	_ = table.Flush()
}

func run(ctx context.Context) (err error) {
	only, err := chosen()
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "chaos-mutants-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	program := filepath.Join(folder, "chaos")
	build := exec.CommandContext(ctx, "go", "build", "-C", "test", "-o", program, "./chaos") //nolint:gosec // our own folder
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building chaos: %w\n%s", err, output)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "MUTANT\tSCENARIO OR TEST\tSEEN\n")
	var errs []error
	for _, m := range only {
		seen, err := m.run(ctx, folder, program)
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err))
			seen = "no: " + strings.SplitN(err.Error(), "\n", 2)[0]
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", m.name, m.scenario+m.test, seen)
	}
	return errors.Join(append(errs, table.Flush())...)
}

// chosen returns the mutants that ONLY names, or all.
func chosen() ([]mutant, error) {
	only := os.Getenv("ONLY")
	if only == "" {
		return mutants, nil
	}
	var found []mutant
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(mutants, func(m mutant) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("ONLY: there is no mutant %q; make chaos-mutants ARGS=help lists them", name)
		}
		found = append(found, mutants[i])
	}
	return found, nil
}

// run applies the mutant to a copy of the tree, and returns which violations it caused.
func (m mutant) run(ctx context.Context, folder, program string) (string, error) {
	tree := filepath.Join(folder, m.name)
	if err := edit.CopyTree(ctx, ".", tree); err != nil {
		return "", err
	}
	if err := edit.Apply(tree, m.edits); err != nil {
		return "", err
	}
	fmt.Fprintf(os.Stderr, "%s: %s\n", m.name, m.description)
	if m.test != "" {
		return m.runTest(ctx, tree)
	}
	return m.runScenario(ctx, tree, program)
}

// runTest requires that the test itself fails. A compile error does not count.
func (m mutant) runTest(ctx context.Context, tree string) (string, error) {
	pkg, name, _ := strings.Cut(m.test, " ")
	module := edit.Module(tree, pkg)
	pkg, err := filepath.Rel(module, pkg)
	if err != nil {
		return "", err
	}
	test := exec.CommandContext(ctx, "go", "test", "-count=1", "-timeout=5m", "-run=^"+name+"$", "./"+pkg) //nolint:gosec // of our list
	test.Dir = filepath.Join(tree, module)
	output, err := test.CombinedOutput()
	switch {
	case err == nil:
		return "", errors.New("the test passed")
	case !strings.Contains(string(output), "--- FAIL: "+name):
		return "", fmt.Errorf("the test did not run: %w\n%s", err, output)
	}
	return "red", nil
}

func (m mutant) runScenario(ctx context.Context, tree, program string) (string, error) {
	chaos := exec.CommandContext(ctx, program)
	// After SIGTERM, chaos needs time to stop its servers.
	chaos.Cancel = func() error { return chaos.Process.Signal(syscall.SIGTERM) }
	chaos.WaitDelay = time.Minute
	chaos.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C reaches only this process, which sends SIGTERM
	chaos.Env = append(os.Environ(), "ONLY="+m.scenario, "SOURCE="+tree, "OUTPUT="+tree, "SOAK=0", "PATIENCE=40s", fmt.Sprint("CLUSTER=", m.cluster))
	chaos.Stdout, chaos.Stderr = os.Stderr, os.Stderr
	runErr := chaos.Run()
	content, err := os.ReadFile(filepath.Join(tree, "chaos.json")) //nolint:gosec // our own folder
	if err != nil {
		return "", errors.Join(runErr, err)
	}
	return brokenPromises(content)
}

// brokenPromises returns the violations. A scenario that could not run is an error.
func brokenPromises(content []byte) (string, error) {
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
			return "", fmt.Errorf("the scenario did not run: %s", r.Broken["harness"][0])
		}
		for promise, why := range r.Broken {
			broken = append(broken, fmt.Sprintf("%s (%s)", promise, why[0]))
		}
	}
	if len(broken) == 0 {
		return "", errors.New("the scenario passed")
	}
	slices.Sort(broken)
	return "red: " + strings.Join(broken, ", "), nil
}
