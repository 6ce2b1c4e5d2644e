package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// Console is the language of executed blocks: lines of "$ command", each followed by its output.
const Console = "console"

// Anything is a line in an expected output. It matches any number of lines.
const Anything = "..."

// Marks limit where a block is run. They are in a comment before the block, for example
// "<!-- run: compose -->". Never requires a reason: "never, because …".
const (
	OnlyCompose   = "compose"
	OnlyProcesses = "processes"
	Never         = "never"
)

// Command is one command of a console block, with its expected output.
type Command struct {
	Line int
	Text string
	Want []string // nil: any output is right
}

var (
	runMark = regexp.MustCompile(`(?s)^<!--\s*run:\s*(.*?)\s*-->\s*$`)
	because = regexp.MustCompile(`(?s)^never, because \S`)
)

// mark returns the mark in a comment, if there is one.
func (r *reader) mark(n *ast.HTMLBlock) (mark string, is bool) {
	found := runMark.FindStringSubmatch(r.html(n))
	if found == nil {
		return "", false
	}
	return found[1], true
}

// html returns the source of a comment. The parser keeps the last of several lines separately.
func (r *reader) html(n *ast.HTMLBlock) string {
	source := r.blockSource(n)
	if n.HasClosure() && !strings.HasSuffix(source, string(n.ClosureLine.Value(r.source))) {
		source += string(n.ClosureLine.Value(r.source))
	}
	return source
}

// checkMark reports marks that have no effect.
func (r *reader) checkMark(n *ast.HTMLBlock) {
	mark, is := r.mark(n)
	if !is {
		return
	}
	if block, ok := n.NextSibling().(*ast.FencedCodeBlock); !ok || string(block.Language(r.source)) != Console {
		r.reportError(n, "there is no console block after this mark")
	}
	if !slices.Contains([]string{OnlyCompose, OnlyProcesses}, mark) && !because.MatchString(mark) {
		r.reportError(n, "want run: %s, run: %s, or run: never, because ...; not %q", OnlyCompose, OnlyProcesses, mark)
	}
}

func (r *reader) reportError(n ast.Node, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.page.Path, r.line(n), fmt.Sprintf(format, args...)))
}

// Runs reports whether a block is run in a mode: compose, processes, or "" if the system does not
// run.
func (b Block) Runs(mode string) bool {
	return b.Language == Console && (b.Mark == "" || b.Mark == mode)
}

// Commands returns the commands of a console block. A backslash at the end of a line continues it.
func (b Block) Commands() (commands []Command, err error) {
	for i, line := range b.Lines {
		last := len(commands) - 1
		switch {
		case last >= 0 && len(commands[last].Want) == 0 && strings.HasSuffix(commands[last].Text, `\`):
			commands[last].Text += "\n" + strings.TrimPrefix(line, "> ")
		case strings.HasPrefix(line, "$ "):
			commands = append(commands, Command{Line: b.Line + i, Text: strings.TrimPrefix(line, "$ ")})
		case last < 0:
			return nil, fmt.Errorf("line %d: a console block begins with \"$ command\"", b.Line+i)
		case strings.TrimSpace(line) != "" || len(commands[last].Want) > 0:
			commands[last].Want = append(commands[last].Want, line)
		}
	}
	return commands, nil
}
