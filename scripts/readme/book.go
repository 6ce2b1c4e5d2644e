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

	"example.com/transactional-outbox/internal/docs"
)

// book runs the pages that were asked for.
type book struct {
	options

	out    io.Writer
	chosen int // blocks, whether they are run here or not
}

// read does what one page says.
func (b *book) read(ctx context.Context, page docs.Page) error {
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
		if !b.wants(block, commands) {
			continue
		}
		b.chosen++
		if err := b.block(ctx, shell, page.Path, block, commands); err != nil {
			return err
		}
	}
	return nil
}

func (b *book) wants(block docs.Block, commands []docs.Command) bool {
	matches := func(pattern *regexp.Regexp) bool {
		return pattern.MatchString(block.Heading) ||
			slices.ContainsFunc(commands, func(c docs.Command) bool { return pattern.MatchString(c.Text) })
	}
	return matches(b.only) && (b.skip == nil || !matches(b.skip))
}

func (b *book) block(ctx context.Context, shell *shell, path string, block docs.Block, commands []docs.Command) error {
	if !b.list && !block.Runs(mode()) {
		fmt.Fprintf(b.out, "%s:%d  not run here: %s\n", path, block.Line, block.Mark)
		return nil
	}
	for _, c := range commands {
		fmt.Fprintf(b.out, "%s:%d  $ %s\n", path, c.Line, c.Text)
		if b.list {
			continue
		}
		if err := b.command(ctx, shell, c); err != nil {
			return fmt.Errorf("%s:%d: %w", path, c.Line, err)
		}
	}
	return nil
}

func (b *book) command(ctx context.Context, shell *shell, c docs.Command) error {
	ctx, cancel := context.WithTimeoutCause(ctx, b.limit, fmt.Errorf("not done in %s", b.limit))
	defer cancel()
	began := time.Now()
	printed, status, err := shell.run(ctx, c.Text)
	if err == nil && status != 0 {
		err = fmt.Errorf("exit status %d", status)
	}
	if err != nil {
		fmt.Fprint(b.out, indent(printed))
		return err
	}
	if len(c.Want) > 0 {
		if diff := compare(c.Want, lines(printed)); diff != "" {
			fmt.Fprint(b.out, "- is written, + is printed:\n", indent(diff))
			return errors.New("the output is another one")
		}
	}
	fmt.Fprintf(b.out, "    as written, in %s\n", time.Since(began).Round(time.Millisecond))
	return nil
}

// mode is how the system runs at this moment, as scripts/up has noted it.
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
