package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"example.com/transactional-outbox/test/docs"
)

// runner runs the chosen pages.
type runner struct {
	options

	out    io.Writer
	chosen int // number of blocks that match, also in another mode
}

// read runs the blocks of one page in one shell.
func (r *runner) read(ctx context.Context, page docs.Page) error {
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
		if !r.selects(block, commands) {
			continue
		}
		r.chosen++
		if err := r.block(ctx, shell, page.Path, block, commands); err != nil {
			return err
		}
	}
	return nil
}

func (r *runner) selects(block docs.Block, commands []docs.Command) bool {
	matches := func(pattern *regexp.Regexp) bool {
		return pattern.MatchString(block.Heading) ||
			slices.ContainsFunc(commands, func(c docs.Command) bool { return pattern.MatchString(c.Text) })
	}
	return matches(r.only) && (r.skip == nil || !matches(r.skip))
}

func (r *runner) block(ctx context.Context, shell *shell, path string, block docs.Block, commands []docs.Command) error {
	if !r.list && !block.Runs(mode()) {
		fmt.Fprintf(r.out, "%s:%d  not run here: %s\n", path, block.Line, block.Mark)
		return nil
	}
	for _, c := range commands {
		fmt.Fprintf(r.out, "%s:%d  $ %s\n", path, c.Line, c.Text)
		if r.list {
			continue
		}
		if err := r.command(ctx, shell, c); err != nil {
			return fmt.Errorf("%s:%d: %w", path, c.Line, err)
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
		fmt.Fprint(r.out, indent(printed))
		return err
	}
	if len(c.Want) > 0 {
		if diff := compare(c.Want, lines(printed)); diff != "" {
			fmt.Fprint(r.out, "- is expected, + was printed:\n", indent(diff))
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

func lines(text string) []string { return strings.Split(text, "\n") }

func indent(text string) string {
	text = strings.TrimRight(text, "\n")
	if text == "" {
		return ""
	}
	return "    " + strings.ReplaceAll(text, "\n", "\n    ") + "\n"
}
