package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

// Console is the language of blocks that are run: lines of "$ command", and behind each
// what it prints.
const Console = "console"

// Anything is the line of an expected output that stands for any lines, or none.
const Anything = "..."

// Marks say in a comment before a block when it is run, "<!-- run: compose -->" for
// instance; without one it always is. Never needs a reason: "never, because …".
const (
	OnlyCompose   = "compose"
	OnlyProcesses = "processes"
	Never         = "never"
)

// Command is one line of a console block, with what it has to print.
type Command struct {
	Line int
	Text string
	Want []string // nothing: whatever it prints is right
}

var (
	runMark = regexp.MustCompile(`(?s)^<!--\s*run:\s*(.*?)\s*-->\s*$`)
	because = regexp.MustCompile(`(?s)^never, because \S`)
)

// mark is what a comment says about the block behind it, if it does.
func (r *reader) mark(n *ast.HTMLBlock) (mark string, is bool) {
	found := runMark.FindStringSubmatch(r.html(n))
	if found == nil {
		return "", false
	}
	return found[1], true
}

// html is the source of a comment: its last line, if there are several, is kept apart.
func (r *reader) html(n *ast.HTMLBlock) string {
	source := r.written(n)
	if n.HasClosure() && !strings.HasSuffix(source, string(n.ClosureLine.Value(r.source))) {
		source += string(n.ClosureLine.Value(r.source))
	}
	return source
}

// loneMark complains of marks that would be overlooked.
func (r *reader) loneMark(n *ast.HTMLBlock) {
	mark, is := r.mark(n)
	if !is {
		return
	}
	if block, ok := n.NextSibling().(*ast.FencedCodeBlock); !ok || string(block.Language(r.source)) != Console {
		r.complain(n, "no console block stands behind this mark")
	}
	if !slices.Contains([]string{OnlyCompose, OnlyProcesses}, mark) && !because.MatchString(mark) {
		r.complain(n, "run: %s, run: %s, or run: never, because ...: not %q", OnlyCompose, OnlyProcesses, mark)
	}
}

func (r *reader) complain(n ast.Node, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.page.Path, r.line(n), fmt.Sprintf(format, args...)))
}

// Runs says whether a block is run where the system runs in this mode: compose,
// processes, or none.
func (b Block) Runs(mode string) bool {
	return b.Language == Console && (b.Mark == "" || b.Mark == mode)
}

// Commands are those of a console block. A line that ends in a backslash goes on in the
// next one.
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
