package main

import (
	"slices"
	"strings"
	"testing"
)

// TestVerdict names the rows that are not as they are known.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		row         string
		figures     figures
		says, fails string
	}{
		"as known":                              {"seq-cursor/no-fault", figures{Lost: 1}, "", ""},
		"a famous failure does not show":        {"seq-cursor/no-fault", figures{Repeated: 1}, `seq-cursor/no-fault is known for "lost"`, ""},
		"as safe as known":                      {"leader-advisory-lock/memory-alarm", figures{}, "", ""},
		"a certain failure":                     {"ack-first/mail-away", figures{Lost: 1}, "", ""},
		"a certain failure does not show":       {"ack-first/mail-away", figures{Repeated: 1}, "", `ack-first/mail-away must show "lost"`},
		"this project is safe":                  {"this-project/broker-restart", figures{}, "", ""},
		"this project loses":                    {"this-project/broker-restart", figures{Lost: 1}, "", "this-project/broker-restart is: lost 1"},
		"this project repeats":                  {"this-project/mail-slow", figures{Repeated: 1}, "", "repeated 1"},
		"this project has phantoms":             {"this-project/no-fault", figures{Phantom: 1}, "", "phantom 1"},
		"this project stands still":             {"this-project/database-restart", figures{Stuck: 1}, "", "stuck 1"},
		"this project buries":                   {"this-project/mail-away", figures{Buried: 1}, "", "buried 1"},
		"this project dies and repeats":         {"this-project/kill-consumer", figures{Repeated: 64}, "", ""},
		"more repeats than at 8 deaths":         {"this-project/kill-consumer", figures{Repeated: 65}, "", "repeated 65"},
		"the answers of a mail server are lost": {"this-project/mail-away", figures{Repeated: 4}, "", ""},
		"more repeats than lost answers":        {"this-project/mail-away", figures{Repeated: 5}, "", "repeated 5"},
		"e-mails of this project out of order":  {"this-project/mail-away", figures{OutOfOrder: 1}, "", "out of order 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			design, fault, _ := strings.Cut(test.row, "/")
			rows := options{Only: []string{test.row}, Seed: 1, Runs: 2}.rows()
			var said strings.Builder
			err := verdict(&said, rows, []result{{Design: design, Fault: fault, figures: test.figures}})
			requirePart(t, said.String(), test.says)
			requirePart(t, errorText(err), test.fails)
		})
	}
}

// requirePart requires that a text has this part. Without a part, it must be empty.
func requirePart(t *testing.T, text, part string) {
	t.Helper()
	if !strings.Contains(text, part) || part == "" && text != "" {
		t.Errorf("it says %q, want %q", text, part)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestARowWithoutResult fails, so that a run that could not inject a fault is not taken for a good
// one.
func TestARowWithoutResult(t *testing.T) {
	t.Parallel()
	rows := options{Only: []string{"seq-cursor/no-fault"}, Seed: 1, Runs: 1}.rows()
	requirePart(t, errorText(verdict(&strings.Builder{}, rows, nil)), "seq-cursor/no-fault has no result")
}

// TestEachKnownFailureHasARow requires that the names of faults and figures are right.
func TestEachKnownFailureHasARow(t *testing.T) {
	t.Parallel()
	found, want := 0, 0
	for _, r := range allRows() {
		for _, list := range [][]string{r.design.famous, r.design.certain} {
			if figure := r.figure(list); r.design.side&r.fault.touches != 0 && slices.Contains(append(names, "safe"), figure) {
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
}

// TestShortShowsEachKindOfFailure requires that SHORT=1 has a certain failure of each kind.
func TestShortShowsEachKindOfFailure(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	for _, r := range (options{Short: true, Seed: 1, Runs: 1}).rows() {
		shown[r.figure(r.design.certain)] = true
	}
	for _, name := range names {
		if !shown[name] {
			t.Errorf("SHORT=1 has no row that must show %q", name)
		}
	}
}

func TestOnlyAndShortMustHaveACommonRow(t *testing.T) {
	t.Setenv("SHORT", "1")
	t.Setenv("ONLY", "river/no-fault")
	if _, err := readOptions(); err == nil || !strings.Contains(err.Error(), "ONLY") {
		t.Errorf("error %v, want one that names ONLY", err)
	}
}

func ended(seconds float64, f figures) result {
	return result{figures: f, Recovery: &seconds}
}

// TestCell shows the worst figures, and the median of the times.
func TestCell(t *testing.T) {
	t.Parallel()
	for want, runs := range map[string][]result{
		"–":                           nil,
		"safe, 2 s":                   {ended(9, figures{}), ended(1, figures{}), ended(2, figures{})},
		"**lost 3, repeated 1**, 1 s": {ended(1, figures{Lost: 3}), ended(1, figures{Lost: 2, Repeated: 1}), ended(1, figures{})},
		"**stuck 4**":                 {ended(1, figures{}), {figures: figures{Stuck: 4}}},
	} {
		if got := cell(runs); got != want {
			t.Errorf("cell is %q, want %q", got, want)
		}
	}
}
