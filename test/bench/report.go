package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"

	"example.com/transactional-outbox/test/suite"
)

// samples are the measured values by key, mostly one value for each run.
type samples map[string][]float64

func (s samples) add(key string, value float64) { s[key] = append(s[key], value) }

// spread is what the runs say of a figure.
type spread struct{ Lowest, Median, Highest float64 }

func spreadOf(values []float64) spread {
	sorted, n := slices.Sorted(slices.Values(values)), len(values)
	return spread{sorted[0], (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[n-1]}
}

// String has the median first.
func (s spread) String() string {
	return fmt.Sprintf("%s (%s–%s)", formatValue(s.Median), formatValue(s.Lowest), formatValue(s.Highest))
}

func formatValue(value float64) string {
	if value >= 100 {
		return fmt.Sprintf("%.0f", value)
	}
	return fmt.Sprintf("%.3g", value)
}

// workloads are in the order of the table. bare does the same without the services, in the same run.
var workloads = []struct{ name, bare string }{
	{"drain", "bare_publish"},
	{"post", "bare_pgx"},
	{"whole_way", "bare_pgx"},
	{"paced", ""},
	{"consume", "bare_batch"},
	{"mail", "bare_mail"},
}

// addRatios compares each workload with its bare program, run by run.
func (s samples) addRatios() {
	for _, l := range workloads {
		s.addRatio(l.name+"_ratio", l.name+"_per_s", l.bare+"_per_s")
		s.addRatio(l.name+"_cpu_ratio", cpuKey(l.name, "all"), cpuKey(l.bare, "all"))
	}
}

func (s samples) addRatio(key, of, to string) {
	for run := range min(len(s[of]), len(s[to])) { // which may be none
		if s[to][run] > 0 {
			s.add(key, s[of][run]/s[to][run])
		}
	}
}

// goals are the figures with a goal, in the order of the table.
var goals = []struct{ key, goal string }{
	{"drain_ratio", "≥ 0.70"},
	{"post_ratio", "≥ 0.60"},
	{"whole_way_ratio", "≥ 0.45"},
	{"commit_to_publish_ms_p50", "≤ 3"},
	{"consume_ratio", "≥ 0.45"},
	{"mail_ratio", "≥ 0.75"},
	{"drain_rss_mib", "≤ 56"},
	{"consume_rss_mib", "≤ 40"},
	{"mail_rss_mib", "≤ 40"},
}

// figures returns what the runs say of each key.
func (s samples) figures() map[string]spread {
	figures := map[string]spread{}
	for key, values := range s {
		figures[key] = spreadOf(values)
	}
	return figures
}

// printTable prints the CPU times, then the figures with a goal, then the others.
func printTable(w io.Writer, figures map[string]spread) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rest := maps.Clone(figures)
	fmt.Fprintf(table, "CPU, µs/op\t%s\tall\n", strings.Join(processes[:], "\t"))
	for _, l := range workloads {
		for _, name := range []string{l.name, l.bare} {
			if _, measured := rest[cpuKey(name, "all")]; !measured {
				continue // or printed already
			}
			fmt.Fprint(table, name)
			for _, process := range append(processes[:], "all") {
				fmt.Fprintf(table, "\t%s", rest[cpuKey(name, process)])
				delete(rest, cpuKey(name, process))
			}
			fmt.Fprintln(table)
		}
	}
	fmt.Fprint(table, "\nFIGURE\tMEDIAN (LOWEST–HIGHEST)\tGOAL\n")
	for _, g := range goals {
		if value, measured := rest[g.key]; measured {
			fmt.Fprintf(table, "%s\t%s\t%s\n", g.key, value, g.goal)
			delete(rest, g.key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(rest)) {
		fmt.Fprintf(table, "%s\t%s\t\n", key, rest[key])
	}
	return table.Flush()
}

// report prints the figures with their setting, and writes build/bench.json. With another
// bench, it prints the comparison only.
func (b *bench) report(ctx context.Context, other *otherBench) error {
	setting, err := b.setting(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%s\n\n", setting)
	if other != nil {
		return printComparison(os.Stdout, b.Base, other.samples, b.samples)
	}
	b.samples.addRatios()
	figures := b.samples.figures()
	return errors.Join(printTable(os.Stdout, figures),
		suite.WriteJSON("build/bench.json", map[string]any{"setting": setting, "figures": figures}))
}

// setting says where and with what the figures are measured.
func (b *bench) setting(ctx context.Context) (string, error) {
	conn, err := pgx.Connect(ctx, b.Database.URL("postgres"))
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	rabbitmq, err := b.Broker.Ctl(ctx, "version")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d cores, PostgreSQL %s, RabbitMQ %s, %s\n"+
		"%d runs; backlogs of %d events and %d messages; an event has %d bytes, a bare e-mail %d\n"+
		"POSTs over %d connections for %d s, and at %d/s for %d s",
		runtime.NumCPU(), conn.PgConn().ParameterStatus("server_version"), strings.TrimSpace(rabbitmq), runtime.Version(),
		b.Runs, b.Events, b.Messages, len(orderEvents(1)[0].Payload), len(bareMail),
		connections, b.Seconds, ordersPerSecond, b.PacedSeconds), nil
}

// addSyncs adds how many times a second the disk makes one page durable.
func (b *bench) addSyncs() error {
	const page, length = 8 << 10, time.Second / 2
	file, err := os.Create(filepath.Join(b.Folder, "synced"))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only its syncs count
	began, n := time.Now(), 0
	for time.Since(began) < length {
		if _, err := file.WriteAt(make([]byte, page), 0); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		n++
	}
	b.samples.add("fsyncs_per_s", float64(n)/time.Since(began).Seconds())
	return nil
}
