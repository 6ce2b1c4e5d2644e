package main

import (
	"testing"

	"example.com/transactional-outbox/test/edit"
)

// TestEveryMutantAppliesAndCompiles fails when a change of the code makes a mutant obsolete. To run
// the mutants takes much longer.
func TestEveryMutantAppliesAndCompiles(t *testing.T) {
	t.Parallel()
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			if err := edit.Compile(t.Context(), "../../..", m.edits); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOnlyABrokenPromiseCounts(t *testing.T) {
	t.Parallel()
	if seen, err := brokenPromises([]byte(`[{"pass": false, "broken": {"P3": ["an event is gone", "another"]}}]`)); err != nil || seen != "red: P3 (an event is gone)" {
		t.Errorf("%q, %v", seen, err)
	}
	for name, results := range map[string]string{
		"green":                    `[{"pass": true}]`,
		"no fault":                 `[{"pass": false}]`,
		"the scenario did not run": `[{"pass": false, "broken": {"harness": ["no"]}}]`,
		"no result":                `[]`,
	} {
		if seen, err := brokenPromises([]byte(results)); err == nil {
			t.Errorf("%s: %q", name, seen)
		}
	}
}
