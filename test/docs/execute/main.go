// Command execute runs the console blocks of the README and the chapters on the running system, in
// order, with one shell for each file. It compares the output with the page.
//
// A console block is a fenced block of the language "console": lines of "$ command", each followed
// by its output. Ids, times, durations and the widths of columns may differ. A line "..." matches
// any number of lines. A command without an output may print anything. Each command must succeed.
//
// A comment before a block limits where it is run:
//
//	<!-- run: compose -->            only on Docker Compose
//	<!-- run: processes -->          only where the services are processes
//	<!-- run: never, because ... --> nowhere
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"example.com/transactional-outbox/test/docs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "execute:", err)
		os.Exit(1)
	}
}

// runner has the choice of the command line.
type runner struct {
	skip   *regexp.Regexp
	limit  time.Duration // of one command
	out    io.Writer
	chosen int // number of blocks that are not skipped, also in another mode
}

func run(ctx context.Context, args []string, out io.Writer) error {
	r := runner{out: out}
	flags := flag.NewFlagSet("build/execute [flags] [file ...], in the repository's root", flag.ContinueOnError)
	skip := flags.String("skip", `\A\z`, "skip blocks with a command that matches this `regexp`")
	flags.DurationVar(&r.limit, "timeout", 10*time.Minute, "time limit of one command")
	err := flags.Parse(args)
	if err != nil {
		return err
	}
	if r.skip, err = regexp.Compile(*skip); err != nil {
		return err
	}
	paths := flags.Args()
	if len(paths) == 0 {
		if paths, err = docs.All("."); err != nil {
			return err
		}
	}
	var pages []docs.Page // all are read first, so that errors are found before anything is run
	for _, path := range paths {
		page, err := docs.ReadFile(".", path)
		if err != nil {
			return err
		}
		pages = append(pages, page)
	}
	for _, page := range pages {
		if err := r.page(ctx, page); err != nil {
			return err
		}
	}
	if r.chosen == 0 {
		return errors.New("no console block was chosen")
	}
	return nil
}

// page runs the blocks of one page in one shell.
func (r *runner) page(ctx context.Context, page docs.Page) error {
	shell, err := open()
	if err != nil {
		return err
	}
	defer shell.close()
	for _, block := range page.Blocks {
		if block.Language != docs.Console {
			continue
		}
		commands, err := block.Commands()
		if err != nil {
			return fmt.Errorf("%s: %w", page.Path, err)
		}
		if slices.ContainsFunc(commands, func(c docs.Command) bool { return r.skip.MatchString(c.Text) }) {
			continue
		}
		r.chosen++
		if !block.Runs(mode()) {
			fmt.Fprintf(r.out, "%s:%d  not run here: %s\n", page.Path, block.Line, block.Mark)
			continue
		}
		for _, c := range commands {
			fmt.Fprintf(r.out, "%s:%d  $ %s\n", page.Path, c.Line, c.Text)
			if err := r.command(ctx, shell, c); err != nil {
				return fmt.Errorf("%s:%d: %w", page.Path, c.Line, err)
			}
		}
	}
	return nil
}

func (r *runner) command(ctx context.Context, shell *shell, c docs.Command) error {
	ctx, cancel := context.WithTimeoutCause(ctx, r.limit, fmt.Errorf("not finished in %s", r.limit))
	defer cancel()
	began := time.Now()
	printed, status, err := shell.run(ctx, c.Text)
	if err == nil && status != 0 {
		err = fmt.Errorf("exit status %d", status)
	}
	if err != nil {
		fmt.Fprint(r.out, printed)
		return err
	}
	if len(c.Want) > 0 {
		if diff := compare(c.Want, strings.Split(printed, "\n")); diff != "" {
			fmt.Fprint(r.out, diff)
			return errors.New("the output differs")
		}
	}
	fmt.Fprintf(r.out, "    as expected, in %s\n", time.Since(began).Round(time.Millisecond))
	return nil
}

// mode returns how the system runs now. scripts/demo has written it.
func mode() string {
	content, err := os.ReadFile(".stack/mode")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(content))
}
