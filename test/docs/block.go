package docs

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Console is the language of executed blocks: lines of "$ command", each followed by its output.
const Console = "console"

// Anything is a line in an expected output. It matches any number of lines.
const Anything = "..."

// Block is fenced code.
type Block struct {
	Line     int // of the first line of the code
	Language string
	Heading  string // the heading above
	Mark     string // the text after "run:" in the comment before it
	From     string // the file of a quote: the target of "[FILE](FILE):" on the line before it
	Lines    []string
}

// Command is one command of a console block, with its expected output.
type Command struct {
	Line int
	Text string
	Want []string // nil: any output is right
}

var (
	comment = regexp.MustCompile(`^<!--\s*run:\s*(.*?)\s*-->$`)
	marks   = regexp.MustCompile(`^(compose|processes|never, because \S.*)$`)
)

func parseComment(text string) (mark string, is bool) {
	m := comment.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	return m[1], true
}

func newBlock(line int, language, heading, comment string) (Block, error) {
	b := Block{Line: line, Language: language, Heading: heading}
	mark, is := parseComment(comment)
	if is && (language != Console || !marks.MatchString(mark)) {
		return b, fmt.Errorf("want run: compose, run: processes, or run: never, because ...; not %q, before %s", mark, language)
	}
	b.Mark = mark
	return b, nil
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

// NotIn returns the first part of a quote that is not in a source, or not in this order. Blank
// lines and lines of three dots separate the parts. The indentation of a part's first line does not
// count.
func (b Block) NotIn(source string) (part string, is bool) {
	for lines := b.Lines; len(lines) > 0; {
		end := slices.IndexFunc(lines, func(line string) bool {
			return strings.TrimSpace(line) == "" || strings.TrimSpace(line) == Anything
		})
		if end < 0 {
			end = len(lines)
		}
		part := strings.TrimSpace(strings.Join(lines[:end], "\n"))
		_, rest, found := strings.Cut(source, part)
		if !found {
			return part, true
		}
		source, lines = rest, lines[min(end+1, len(lines)):]
	}
	return "", false
}
