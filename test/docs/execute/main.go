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
	"syscall"
	"time"

	"example.com/transactional-outbox/test/docs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2) // the help has been printed
	case err != nil:
		fmt.Fprintln(os.Stderr, "execute:", err)
		os.Exit(1)
	}
}

// options are set by the command line.
type options struct {
	paths []string
	only  *regexp.Regexp
	skip  *regexp.Regexp // or nil
	limit time.Duration
	list  bool
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	pages, err := o.pages()
	if err != nil {
		return err
	}
	b := &runner{options: o, out: stdout}
	for _, page := range pages {
		if err := b.read(ctx, page); err != nil {
			return err
		}
	}
	if b.chosen == 0 {
		return errors.New("no console block was chosen")
	}
	return nil
}

func parse(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("execute", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("run", "", "run only blocks whose heading or commands match this `regexp`")
	skip := flags.String("skip", "", "skip blocks whose heading or commands match this `regexp`")
	flags.DurationVar(&o.limit, "timeout", 10*time.Minute, "time limit of one command")
	flags.BoolVar(&o.list, "list", false, "print the commands and run none")
	flags.Usage = func() {
		fmt.Fprint(stderr, "Runs the console blocks of the README and the chapters. In the repository's root:\n\n"+
			"go build -C test -o ../build/execute ./docs/execute && build/execute [flags] [file ...]\n\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return o, flag.ErrHelp // Parse has printed the error
	}
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, err
	}
	if *skip != "" {
		if o.skip, err = regexp.Compile(*skip); err != nil {
			return o, err
		}
	}
	o.paths = flags.Args()
	if len(o.paths) == 0 {
		o.paths, err = docs.All(".")
	}
	return o, err
}

// pages reads all pages first, so that it finds errors before anything is run.
func (o options) pages() (pages []docs.Page, err error) {
	for _, path := range o.paths {
		page, err := docs.ReadFile("", path)
		if err != nil {
			return nil, err
		}
		pages = append(pages, page)
	}
	return pages, nil
}
