// Package docs proves that the README, the chapters and the examples' pages are true: links, quotes,
// settings and names. test/docs/execute runs their console blocks. It reads Markdown line by line.
package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Page has the parts of a Markdown file that can be compared with the repository.
type Page struct {
	Path    string // from the repository's root
	Lines   []string
	Anchors []string // of the headings
	Links   []Link
	Blocks  []Block
	Tables  []Table
}

// Link is the target of a link or an image.
type Link struct {
	Line   int
	Target string
}

// Table has the cells of its head, and its other rows.
type Table struct {
	Head []string
	Rows []Row
}

// Row is a row of a table.
type Row struct {
	Line  int
	Cells []string
}

// All returns the paths of all pages in reading order: the README, the chapters, the examples.
func All(root string) ([]string, error) {
	paths := []string{"README.md"}
	for _, pattern := range []string{"docs/*.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			path, err := filepath.Rel(root, path)
			if err != nil {
				return nil, err
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}

// ReadFile reads a page. Its path is relative to root.
func ReadFile(root, path string) (Page, error) {
	source, err := os.ReadFile(filepath.Join(root, path)) //nolint:gosec // the caller chooses the file
	if err != nil {
		return Page{}, err
	}
	return Parse(path, string(source))
}

// reader reads a page line by line.
type reader struct {
	page    Page
	heading string
	block   *Block // that is not closed yet
	indent  string // of the block: it may be in a list
	comment string // before the next block
	quoted  string // the file that the line before names, if it is "[FILE](FILE):"
	row     bool   // the line before was a row of a table
}

// Parse returns an error for a comment that has no effect: it would change whether a block is run.
func Parse(path, source string) (Page, error) {
	r := reader{page: Page{Path: path, Lines: strings.Split(source, "\n")}}
	for i, line := range r.page.Lines {
		if err := r.line(i+1, line); err != nil {
			return r.page, fmt.Errorf("%s:%d: %w", path, i+1, err)
		}
	}
	if r.block != nil {
		return r.page, fmt.Errorf("%s: the block at line %d has no end", path, r.block.Line)
	}
	return r.page, r.endComment()
}

var (
	fence   = regexp.MustCompile("^\\s*```\\w*$") // the one form that is read, also by mermaid/check.mjs
	heading = regexp.MustCompile(`^#+ (.*)`)
	quote   = regexp.MustCompile(`^\[[^]]+\]\(([^()\s]+)\):$`)
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)|^\[[^]]+\]: (\S+)`)
)

func (r *reader) line(number int, line string) error {
	text := strings.TrimSpace(line)
	wasRow := r.row
	r.row = false
	quoted := r.quoted
	r.quoted = ""
	switch {
	case r.block != nil:
		return r.inBlock(line, text)
	case strings.HasPrefix(r.comment, "<!--") && !strings.HasSuffix(r.comment, "-->"):
		r.comment += " " + text
	case text == "":
	case strings.HasPrefix(text, "<!--"):
		err := r.endComment()
		r.comment = text
		return err
	case strings.Contains(line, "~~~"), strings.Contains(line, "```") && !fence.MatchString(line):
		return fmt.Errorf("%q: write a fence as ``` and a language, with nothing else", text)
	case strings.HasPrefix(text, "```"):
		r.indent, _, _ = strings.Cut(line, "```")
		b, err := newBlock(number+1, text[3:], r.heading, r.comment)
		b.From = quoted
		r.block, r.comment = &b, ""
		return err
	default:
		r.prose(number, text, wasRow)
		return r.endComment()
	}
	return nil
}

func (r *reader) inBlock(line, text string) error {
	if text == "```" {
		r.page.Blocks = append(r.page.Blocks, *r.block)
		r.block = nil
		return nil
	}
	r.block.Lines = append(r.block.Lines, strings.TrimPrefix(line, r.indent))
	return nil
}

// endComment returns an error for a comment that is for a block, and has none.
func (r *reader) endComment() error {
	comment := r.comment
	r.comment = ""
	if _, is := parseComment(comment); is {
		return fmt.Errorf("%s: there is no block after %s", r.page.Path, comment)
	}
	return nil
}

func (r *reader) prose(number int, text string, wasRow bool) {
	if m := heading.FindStringSubmatch(text); m != nil {
		r.heading = m[1]
		r.page.Anchors = append(r.page.Anchors, anchor(m[1]))
	}
	if m := quote.FindStringSubmatch(text); m != nil {
		r.quoted = filepath.Join(filepath.Dir(r.page.Path), m[1])
	}
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		r.page.Links = append(r.page.Links, Link{number, m[1] + m[2]})
	}
	if !strings.HasPrefix(text, "|") {
		return
	}
	r.row = true
	cells := strings.Split(strings.Trim(text, "|"), "|")
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	switch last := len(r.page.Tables) - 1; {
	case !wasRow:
		r.page.Tables = append(r.page.Tables, Table{Head: cells})
	case !slices.ContainsFunc(cells, func(cell string) bool { return strings.Trim(cell, ":-") != "" }):
	default:
		r.page.Tables[last].Rows = append(r.page.Tables[last].Rows, Row{number, cells})
	}
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)

// anchor returns GitHub's anchor of a heading.
func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
