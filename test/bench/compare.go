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
	"text/tabwriter"
	"time"

	"example.com/transactional-outbox/test/suite"
)

// shortForm are the settings of a comparison, unless the user has set others.
var shortForm = []string{
	"BENCH_RUNS=8", "BENCH_BARE=false", "BENCH_ONLY=drain,post,consume",
	"BENCH_EVENTS=20000", "BENCH_MESSAGES=6000", "BENCH_SECONDS=4",
}

// otherBench is the bench of another commit, which knows the tables of that commit. Both use the same
// servers: two of a kind differ by several per cent.
type otherBench struct {
	folder  string // with a clone
	process *exec.Cmd
	in      io.WriteCloser // for each line, it measures once
	out     *json.Decoder  // and answers with its samples so far
	samples samples
}

func startOther(ctx context.Context, commit, serversFolder string) (o *otherBench, err error) {
	suite.Progress("building bench of %s", commit)
	o = &otherBench{}
	defer func() {
		if err != nil {
			err = fmt.Errorf("BASE=%s: %w", commit, errors.Join(err, o.Close()))
		}
	}()
	id, err := execute(ctx, "git", "rev-parse", "--verify", commit+"^{commit}")
	if err != nil {
		return o, err
	}
	if _, err := execute(ctx, "git", "grep", "--quiet", "BENCH_SERVERS", id, "--", "test/bench"); err != nil {
		return o, errors.New("the bench of this commit cannot be compared: it is older than BASE")
	}
	if o.folder, err = os.MkdirTemp("", "bench-base-"); err != nil {
		return o, err
	}
	program := filepath.Join(o.folder, "build", "bench")
	for _, words := range [][]string{
		{"git", "clone", "--quiet", "--shared", "--no-checkout", ".", o.folder},
		{"git", "-C", o.folder, "checkout", "--quiet", "--detach", id},
		{"go", "build", "-C", filepath.Join(o.folder, "test"), "-o", program, "./bench"},
	} {
		if _, err := execute(ctx, words...); err != nil {
			return o, err
		}
	}
	c := command(ctx, program)
	c.Dir, c.Stderr, c.Env = o.folder, os.Stderr, append(slices.Concat(shortForm, os.Environ()), "BASE=", "BENCH_SERVERS="+serversFolder)
	in, noIn := c.StdinPipe()
	out, noOut := c.StdoutPipe()
	if err := errors.Join(noIn, noOut, c.Start()); err != nil {
		return o, err
	}
	o.process, o.in, o.out = c, in, json.NewDecoder(out)
	return o, nil
}

// command can end in good order when ctx ends.
func command(ctx context.Context, words ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // the user's own commit
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 30 * time.Second
	return c
}

// execute returns what a command prints, without white space around it.
func execute(ctx context.Context, words ...string) (string, error) {
	output, err := command(ctx, words...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s", strings.Join(words, " "), err, output)
	}
	return strings.TrimSpace(string(output)), err
}

// Close ends it, and removes its clone.
func (o *otherBench) Close() error {
	var ended error
	if o.process != nil {
		_ = o.in.Close() // it ends also if it waits for a line
		ended = o.process.Wait()
	}
	return errors.Join(ended, os.RemoveAll(o.folder))
}

// beside measures this tree and lets the other bench measure, which is first in every other run.
func (o *otherBench) beside(run int, measure func() error) error {
	first, second := o.measure, measure
	if run%2 == 1 {
		first, second = second, first
	}
	if err := first(); err != nil {
		return err
	}
	return second()
}

func (o *otherBench) measure() error {
	_, err := fmt.Fprintln(o.in)
	if err == nil {
		err = o.out.Decode(&o.samples)
	}
	if err != nil {
		err = fmt.Errorf("the bench of BASE: %w", err)
	}
	return err
}

// inTurn is the side of the other bench.
func (b *bench) inTurn(_ int, measure func() error) error {
	if _, err := fmt.Scanln(); errors.Is(err, io.EOF) { // an empty line is another error
		return errors.New("the bench that compares has ended")
	}
	if err := measure(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(b.samples)
}

// printComparison prints the CPU times of both trees, and their ratio in each pair of runs. The first
// pair does not count: it warms up.
func printComparison(w io.Writer, commit string, before, after samples) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "CPU, µs/op\t%s\tTHIS TREE\tRATIO\n", commit)
	for _, l := range workloads {
		for _, process := range append([]string{"all"}, processes[:]...) {
			was, is := before[cpuKey(l.name, process)], after[cpuKey(l.name, process)]
			if min(len(was), len(is)) < 2 || len(was) != len(is) {
				continue // not in both, or not used
			}
			was, is = was[1:], is[1:]
			ratio := "–"
			if !slices.Contains(was, 0) {
				var ratios []float64
				for pair := range is {
					ratios = append(ratios, is[pair]/was[pair])
				}
				ratio = spreadOf(ratios).String()
			}
			fmt.Fprintf(table, "%s, %s\t%s\t%s\t%s\n", l.name, process, spreadOf(was), spreadOf(is), ratio)
		}
	}
	return table.Flush()
}
