package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/env/check"
)

// TestTheReport: a ratio is of one run, and the median of an even number of runs is between two.
func TestTheReport(t *testing.T) {
	t.Parallel()
	measured := samples{"post_per_s": {500, 610, 100, 900}, "bare_pgx_per_s": {1000, 1000, 1000, 1000}}
	for _, way := range []string{"post", "bare_pgx"} {
		for i, process := range append(processes[:], "all") {
			measured[cpuKey(way, process)] = []float64{float64(i), 1500, 700, 800}
		}
	}
	measured.addRatios()
	var report bytes.Buffer
	check.Must(t, printTable(&report, measured.figures()))
	for _, want := range []string{
		"post 750 (0–1500) 750 (1–1500) 750 (2–1500) 750 (3–1500) 750 (4–1500)",
		"post_ratio 0.555 (0.1–0.9) ≥ 0.60",
		"post_cpu_ratio 1 (1–1)",
	} {
		if got := strings.Join(strings.Fields(report.String()), " "); !strings.Contains(got, want) {
			t.Errorf("the report has no %q:\n%s", want, &report)
		}
	}
}

// TestAnEndedProcessCounts: the kernel ends the child of sh after one second of CPU time.
func TestAnEndedProcessCounts(t *testing.T) {
	t.Parallel()
	sh := exec.Command("sh", "-c", "sh -c 'ulimit -t 1; while :; do :; done'; echo ended; read line")
	input, err := sh.StdinPipe()
	check.Must(t, err)
	output, err := sh.StdoutPipe()
	check.Must(t, err)
	check.Must(t, sh.Start())
	_, err = output.Read(make([]byte, 1))
	check.Must(t, err)
	used, err := readUsage(map[int]string{sh.Process.Pid: "service"})
	check.Must(t, err)
	check.Must(t, input.Close())
	_ = sh.Wait()                                  // sh ends with 1, because it reads no line
	if used.ticks["service"] < ticksPerSecond/10 { // without its ended child, sh has nearly none
		t.Errorf("%d ticks are counted of about %d", used.ticks["service"], ticksPerSecond)
	}
}

// TestTheComparison: a ratio is of one pair of runs.
func TestTheComparison(t *testing.T) {
	t.Parallel()
	key := cpuKey("drain", "all")
	var table bytes.Buffer
	check.Must(t, printComparison(&table, "main", samples{key: {1, 100, 200, 400}}, samples{key: {9, 110, 180, 400}}))
	want := "CPU, µs/op main THIS TREE RATIO drain, all 200 (100–400) 180 (110–400) 1 (0.9–1.1)"
	if got := strings.Join(strings.Fields(table.String()), " "); got != want {
		t.Errorf("the comparison is %q, want %q", got, want)
	}
}
