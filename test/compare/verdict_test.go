package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/compare/judge"
)

// TestVerdict names the rows that are not as they are known. A row without a result fails, so that
// a run that could not inject a fault is not taken for a good one.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		row         string
		runs        []judge.Figures
		says, fails string
	}{
		{"seq-cursor/no-fault", nil, "", "seq-cursor/no-fault has no result"},
		{"seq-cursor/no-fault", []judge.Figures{{}, {Lost: 1}}, "", ""},
		{"seq-cursor/no-fault", []judge.Figures{{Repeated: 1}}, `seq-cursor/no-fault is known for "lost"`, ""},
		{"leader-advisory-lock/memory-alarm", []judge.Figures{{}}, "", ""},
		{"ack-first/mail-away", []judge.Figures{{Lost: 1}}, "", ""},
		{"ack-first/mail-away", []judge.Figures{{Repeated: 1}}, "", `ack-first/mail-away must show "lost"`},
		{"this-project/no-fault", []judge.Figures{{}}, "", ""},
		{"this-project/no-fault", []judge.Figures{{}, {Lost: 1}}, "", "this-project/no-fault is: lost 1"},
		{"this-project/mail-slow", []judge.Figures{{Repeated: 1}}, "", "repeated 1"},
		{"this-project/kill-consumer", []judge.Figures{{Repeated: 64}}, "", ""},
		{"this-project/kill-consumer", []judge.Figures{{Repeated: 65}}, "", "repeated 65"},
		{"this-project/mail-away", []judge.Figures{{Repeated: 4}}, "", ""},
		{"this-project/mail-away", []judge.Figures{{Repeated: 5}}, "", "repeated 5"},
		{"this-project/mail-away", []judge.Figures{{OutOfOrder: 1}}, "", "out of order 1"},
	} {
		all := results{}
		for _, figures := range test.runs {
			all[test.row] = append(all[test.row], result{Figures: figures})
		}
		var said strings.Builder
		err := verdict(&said, options{Only: []string{test.row}}.rows(), all)
		if !matches(said.String(), test.says) || !matches(fmt.Sprint(err), test.fails) {
			t.Errorf("%s with %v: it says %q, and returns %v", test.row, test.runs, said.String(), err)
		}
	}
}

// matches reports whether a text has this part. Without a part, it must be empty.
func matches(text, part string) bool {
	return strings.Contains(text, part) && (part != "" || text == "" || text == "<nil>")
}

// TestEachKnownFailureHasARow requires that the names of faults and figures are right, and that a
// failure of each kind is certain.
func TestEachKnownFailureHasARow(t *testing.T) {
	t.Parallel()
	found, want := 0, 0
	for _, r := range allRows() {
		for _, list := range [][]string{r.design.famous, r.design.certain} {
			if figure := r.figure(list); r.design.side&r.fault.touches != 0 && slices.Contains(append(judge.Names, judge.Safe), figure) {
				found++
			}
		}
	}
	for _, d := range designs {
		want += len(d.famous) + len(d.certain)
	}
	if found != want {
		t.Errorf("%d of %d known failures have a row", found, want)
	}
	for _, name := range judge.Names {
		if !slices.ContainsFunc(allRows(), func(r row) bool { return r.figure(r.design.certain) == name }) {
			t.Errorf("no row must show %q", name)
		}
	}
}

// TestCell shows the worst figures, and the median of the times.
func TestCell(t *testing.T) {
	t.Parallel()
	for want, runs := range map[string][]result{
		"–":                           nil,
		"safe, 2 s":                   {{recovery: 9}, {recovery: 1}, {recovery: 2}},
		"**lost 3, repeated 1**, 1 s": {{judge.Figures{Lost: 3}, 1}, {judge.Figures{Lost: 2, Repeated: 1}, 1}},
		"**stuck 4**":                 {{recovery: 1}, {judge.Figures{Stuck: 4}, 75}},
	} {
		if got := cell(runs); got != want {
			t.Errorf("cell is %q, want %q", got, want)
		}
	}
}

func TestOnlyNamesRows(t *testing.T) {
	t.Setenv("ONLY", "river/no-fault,river/nowhere")
	if _, err := readOptions(); err == nil || !strings.Contains(err.Error(), "river/nowhere") {
		t.Errorf("error %v, want one that names the row", err)
	}
}
