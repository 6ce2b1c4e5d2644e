package main

import "testing"

func TestCommitsAreRecognised(t *testing.T) {
	t.Parallel()
	c := &commits{names: map[string]bool{}}
	const name = "stmtcache_5f"
	for _, step := range []struct {
		request string
		commit  bool
	}{
		{"B\x00\x00\x00\x10\x00" + name + "\x00\x00", false},        // not prepared yet
		{"P\x00\x00\x00H" + name + "\x00COMMIT\x00\x00\x00", false}, // only prepared
		{"D\x00\x00\x00\x10S" + name + "\x00", false},               // only described
		{"B\x00\x00\x00\x10\x00" + name + "\x00\x00", true},
		{"Q\x00\x00\x00\x0bcommit\x00", true},
		{"Q\x00\x00\x00\x0brollback\x00", false},
	} {
		if got := c.isCommit([]byte(step.request)); got != step.commit {
			t.Errorf("%q: %v", step.request, got)
		}
	}
}
