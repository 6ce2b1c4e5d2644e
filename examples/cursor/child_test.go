package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a reader in a process of its own.
type child struct {
	s       *system
	process *os.Process
	lines   <-chan string // closed at the end of its output
	stdin   io.Writer
	wait    func() error
	size    int // of the last page
}

func (s *system) child(page int, timeout time.Duration) *child {
	s.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "DATABASE_URL="+s.url,
		fmt.Sprintf("%s=%d", childPage, page), fmt.Sprintf("%s=%v", childTimeout, timeout))
	command.Stderr = os.Stderr
	stdin, err := command.StdinPipe()
	s.must(err)
	stdout, err := command.StdoutPipe()
	s.must(err)
	s.must(command.Start())
	lines := make(chan string)
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	c := &child{s: s, process: command.Process, lines: lines, stdin: stdin, wait: command.Wait}
	s.Cleanup(c.kill)
	return c
}

// kill ends the process with SIGKILL, and waits for its end.
func (c *child) kill() {
	_ = c.process.Kill() // an error if it was killed before
	for range c.lines {  // until the pipe is closed
	}
	_ = c.wait()
}

// next waits for a line, and returns its page of events.
func (c *child) next() (seqs []int64) {
	c.s.Helper()
	line := c.nextLine()
	for field := range strings.FieldsSeq(strings.Trim(line, "[]")) {
		seq, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			c.s.Fatalf("the reader says %q", line)
		}
		seqs = append(seqs, seq)
	}
	return seqs
}

func (c *child) nextLine() string {
	c.s.Helper()
	select {
	case line, ok := <-c.lines:
		if !ok {
			c.s.Fatal("the reader has ended")
		}
		return line
	case <-time.After(limit):
		c.s.Fatalf("the reader says nothing for %v", limit)
	}
	return ""
}

// pages waits for n pages. It lets all but the last one be stored.
func (c *child) pages(n int) (seqs []int64) {
	c.s.Helper()
	for {
		page := c.next()
		if seqs = append(seqs, page...); len(page) > 0 {
			n--
		}
		if c.size = len(page); n == 0 {
			return seqs
		}
		c.proceed()
	}
}

// drain reads until nothing is left of what is committed now.
func (c *child) drain() (seqs []int64) {
	c.s.Helper()
	for nothing := 0; nothing < 2; c.proceed() { // the first one may be from before
		page := c.next()
		if seqs = append(seqs, page...); len(page) == 0 {
			nothing++
		}
	}
	return seqs
}

func (c *child) want(want ...int64) {
	c.s.Helper()
	if got := c.next(); !slices.Equal(got, want) {
		c.s.Errorf("the reader has published %v, want %v", got, want)
	}
}

// proceed lets it store its position, or look again for new events.
func (c *child) proceed() {
	c.s.Helper()
	_, err := io.WriteString(c.stdin, "\n")
	c.s.must(err)
}

func (c *child) signal(sig syscall.Signal) {
	c.s.Helper()
	c.s.must(c.process.Signal(sig))
}

// awaitReaders polls, because PostgreSQL does not report locks. It waits until so many readers
// have the lock, or wait for it.
func (s *system) awaitReaders(granted bool, want int) {
	s.Helper()
	const readers = `SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database
		WHERE datname = current_database() AND locktype = 'advisory' AND granted = $1`
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		var got int
		s.must(s.db.QueryRow(s.Context(), readers, granted).Scan(&got))
		if got == want {
			return
		}
		if time.Since(began) > limit {
			s.Fatalf("%d readers with granted = %v, want %d", got, granted, want)
		}
	}
}
