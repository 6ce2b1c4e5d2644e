package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/jsonfile"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 9, 2}, 3},
	} {
		if got := (samples{"key": c.values}).median("key"); got != c.want {
			t.Errorf("the median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}

func TestTableShowsGoalsFirst(t *testing.T) {
	t.Parallel()
	var table bytes.Buffer
	if err := printTable(&table, map[string]float64{"post_ratio": 0.61, "bare_pgx_per_s": 2490.4}); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(table.String()) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	want := "FIGURE MEASURED GOAL|post_ratio 0.61 ≥ 0.60||OTHER FIGURES|bare_pgx_per_s 2490"
	if got := strings.Join(lines, "|"); got != want {
		t.Errorf("the table is %q, want %q", got, want)
	}
}

func TestJSONIsOneFlatObject(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "build", "bench.json")
	if err := jsonfile.Write(path, samples{"post_ratio": {0.5, 0.7, 0.6}}.figures()); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var figures map[string]float64
	if err := json.Unmarshal(content, &figures); err != nil || figures["post_ratio"] != 0.6 {
		t.Errorf("the file holds %s (%v), want the median 0.6", content, err)
	}
}

func TestLoadsMustBePositive(t *testing.T) {
	t.Setenv("BENCH_EVENTS", "0")
	if _, err := readOptions(); err == nil {
		t.Error("0 events were accepted")
	}
}
