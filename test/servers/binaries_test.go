package servers_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"example.com/transactional-outbox/test/servers"
)

func TestNewestFirst(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, version := range []string{"9.6", "15", "100"} {
		must(t, os.MkdirAll(filepath.Join(version, "bin"), 0o755))
	}
	got := servers.NewestFirst([]string{"/no/such/*", "*/bin"})
	if want := []string{"100/bin", "15/bin", "9.6/bin"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
