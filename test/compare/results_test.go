package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestResultsOfOtherCodeAreKeptElsewhere: a full comparison takes an hour and more.
func TestResultsOfOtherCodeAreKeptElsewhere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "compare.json")
	old, err := openResults(path, "old")
	if err == nil {
		err = old.add(result{Design: "ack-first", Fault: "no-fault", Seed: 1, Code: "old"})
	}
	if err != nil {
		t.Fatal(err)
	}
	book, err := openResults(path, "new")
	if err != nil || len(book.all) != 0 {
		t.Errorf("%d results, error %v", len(book.all), err)
	}
	again, err := openResults(strings.Replace(path, ".json", ".old.json", 1), "old")
	if err != nil || len(again.all) != 1 {
		t.Errorf("%d old results are kept, error %v", len(again.all), err)
	}
}

func TestABrokenFileOfResultsIsNamed(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "compare.json")
	if err := os.WriteFile(path, []byte("[{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := openResults(path, "code")
	if err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v, want one that names the file", err)
	}
}

func TestOnlyAndShortMustHaveACommonRow(t *testing.T) {
	t.Setenv("SHORT", "1")
	t.Setenv("ONLY", "river/no-fault")
	if _, err := readOptions(); err == nil || !strings.Contains(err.Error(), "ONLY") {
		t.Errorf("error %v, want one that names ONLY", err)
	}
}
