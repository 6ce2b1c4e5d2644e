package docs

import (
	"iter"
	"regexp"
	"slices"
	"strings"

	"github.com/yuin/goldmark/ast"
)

var fromMark = regexp.MustCompile(`^<!--\s*from:\s*(\S*)\s*-->\s*$`)

// from returns the file that a comment names for the block after it.
func (r *reader) from(n *ast.HTMLBlock) (file string, is bool) {
	found := fromMark.FindStringSubmatch(r.html(n))
	if found == nil {
		return "", false
	}
	return found[1], true
}

// checkFrom reports a comment without a block: it would compare nothing.
func (r *reader) checkFrom(n *ast.HTMLBlock) {
	if _, is := r.from(n); !is {
		return
	}
	if _, ok := n.NextSibling().(*ast.FencedCodeBlock); !ok {
		r.reportError(n, "there is no code block after this comment")
	}
}

// NotIn returns the first part of a quote that is not in a source, or not in this order. Blank
// lines and lines of three dots separate the parts. The indentation of a part's first line does not
// count.
func (b Block) NotIn(source string) (part string, is bool) {
	for part := range b.parts() {
		_, rest, found := strings.Cut(source, part)
		if !found {
			return part, true
		}
		source = rest
	}
	return "", false
}

func (b Block) parts() iter.Seq[string] {
	separates := func(line string) bool {
		line = strings.TrimSpace(line)
		return line == "" || line == Anything
	}
	return func(yield func(string) bool) {
		for lines := b.Lines; len(lines) > 0; {
			end := slices.IndexFunc(lines, separates)
			if end < 0 {
				end = len(lines)
			}
			if end > 0 && !yield(strings.TrimSpace(strings.Join(lines[:end], "\n"))) {
				return
			}
			lines = lines[min(end+1, len(lines)):]
		}
	}
}
