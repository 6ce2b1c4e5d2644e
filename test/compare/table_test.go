package main

import "testing"

func ended(seconds float64, f figures) result {
	return result{figures: f, Recovery: &seconds}
}

// TestCell shows the worst figures, and the median of the times.
func TestCell(t *testing.T) {
	t.Parallel()
	for want, runs := range map[string][]result{
		"not measured":                nil,
		"safe, 2 s":                   {ended(9, figures{}), ended(1, figures{}), ended(2, figures{})},
		"**lost 3, repeated 1**, 1 s": {ended(1, figures{Lost: 3}), ended(1, figures{Lost: 2, Repeated: 1}), ended(1, figures{})},
		"**stuck 4**":                 {ended(1, figures{}), {figures: figures{Stuck: 4}}},
	} {
		if got := cell(runs); got != want {
			t.Errorf("cell is %q, want %q", got, want)
		}
	}
}
