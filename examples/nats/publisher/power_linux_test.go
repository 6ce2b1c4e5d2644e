package publisher_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/transactional-outbox/examples/nats/natstest"
	"example.com/transactional-outbox/outbox/publish"
)

// TestAConfirmedMessageIsOnTheDisk asks the kernel, right after a message is confirmed, whether the
// stream's files have pages that are only in memory: the loss of power loses these. Killing the
// server shows nothing, because the kernel keeps the pages.
func TestAConfirmedMessageIsOnTheDisk(t *testing.T) {
	t.Parallel()
	requireCacheStat(t)
	for _, c := range []struct {
		name, sync string
		lost       bool
	}{
		{"with sync_interval always", natstest.SyncAlways, false},
		{"not by default", natstest.SyncDefault, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := natstest.Start(t, c.sync)
			session := connect(t, server.URL())
			declare(t, session)
			p, inMemory := open(t, session), 0
			for i := range 20 {
				result := publish.All(p, []publish.Message{message("events", fmt.Sprint(i))}, limit)[0]
				requireOutcome(t, result, publish.Confirmed, nil)
				if inMemoryOnly(t, blocks(t, server)) > 0 {
					inMemory++
				}
			}
			t.Logf("after %d of 20 confirmed messages, the stream's files were not wholly on the disk", inMemory)
			// The kernel writes pages now and then by itself, so one message in memory is enough.
			if lost := inMemory > 0; lost != c.lost {
				t.Errorf("the loss of power loses confirmed messages: %t, want %t", lost, c.lost)
			}
		})
	}
}

// blocks returns the files with the stream's messages.
func blocks(t *testing.T, server *natstest.Server) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(server.Store, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".blk") && strings.Contains(path, "/EVENTS/msgs/") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil || len(paths) == 0 {
		t.Fatalf("no files of the stream: %v", err)
	}
	return paths
}

func inMemoryOnly(t *testing.T, paths []string) (pages uint64) {
	t.Helper()
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		n, err := unwritten(file)
		if err != nil {
			t.Fatal(err)
		}
		pages += n
		_ = file.Close()
	}
	return pages
}

// cacheStat is cachestat(2), of Linux 6.5. It has the same number on all architectures.
const cacheStat = 451

// unwritten returns how many pages of a file are in memory and not, or not yet wholly, on the disk.
func unwritten(file *os.File) (uint64, error) {
	var whole struct{ offset, length uint64 }
	var pages struct{ cached, dirty, beingWritten, evicted, recentlyEvicted uint64 }
	_, _, failure := unix.Syscall6(cacheStat, file.Fd(), uintptr(unsafe.Pointer(&whole)), uintptr(unsafe.Pointer(&pages)), 0, 0, 0)
	if failure != 0 {
		return 0, failure
	}
	return pages.dirty + pages.beingWritten, nil
}

// requireCacheStat skips the test where the kernel does not tell, or has files only in memory.
func requireCacheStat(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if _, err := file.WriteString("some text"); err != nil {
		t.Fatal(err)
	}
	before, err := unwritten(file)
	if err != nil {
		t.Skipf("this needs cachestat of Linux 6.5: %v", err)
	}
	if err := file.Sync(); err != nil {
		t.Fatal(err)
	}
	after, err := unwritten(file)
	if err != nil || before == 0 || after != 0 {
		t.Skipf("on this file system the kernel does not tell what is on the disk: %d pages, and %d after fsync, %v", before, after, err)
	}
}
