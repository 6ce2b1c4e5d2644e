package docs

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM))

// reader collects the parts of a page.
type reader struct {
	source  []byte
	page    Page
	anchors map[string]int // uses of each anchor
	errs    []error
}

func (r *reader) read() (Page, error) {
	root := markdown.Parser().Parse(text.NewReader(r.source))
	err := ast.Walk(root, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			r.visit(n)
		}
		return ast.WalkContinue, nil
	})
	return r.page, errors.Join(append(r.errs, err)...)
}

func (r *reader) visit(n ast.Node) {
	switch n := n.(type) {
	case *ast.Heading:
		r.heading(n)
	case *ast.Paragraph, *ast.TextBlock, *tables.TableCell:
		r.page.Prose = append(r.page.Prose, Text{r.line(n), r.blockSource(n)})
	case *ast.Link:
		r.link(n, n.Destination)
	case *ast.Image:
		r.link(n, n.Destination)
	case *ast.AutoLink:
		r.link(n, n.URL(r.source))
	case *ast.CodeSpan:
		r.page.Spans = append(r.page.Spans, Text{r.line(n), r.plain(n)})
	case *ast.FencedCodeBlock:
		r.block(n)
	case *ast.HTMLBlock:
		r.checkMark(n)
		r.checkFrom(n)
	case *tables.Table:
		r.table(n)
	}
}

func (r *reader) heading(n ast.Node) {
	h := Heading{Text: Text{r.line(n), r.plain(n)}}
	h.Anchor = r.anchor(h.Text.Text)
	r.page.Headings = append(r.page.Headings, h)
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{M}\p{N}\p{Pc} -]`)

// anchor returns GitHub's anchor of a heading.
func (r *reader) anchor(heading string) string {
	name := notInAnchors.ReplaceAllString(strings.ToLower(heading), "")
	name = strings.ReplaceAll(name, " ", "-")
	repeat := r.anchors[name]
	r.anchors[name]++
	if repeat > 0 {
		return fmt.Sprintf("%s-%d", name, repeat)
	}
	return name
}

func (r *reader) link(n ast.Node, target []byte) {
	r.page.Links = append(r.page.Links, Text{r.line(n), string(target)})
}

func (r *reader) block(n *ast.FencedCodeBlock) {
	b := Block{Line: r.line(n), Language: string(n.Language(r.source))}
	if n.Lines().Len() > 0 {
		b.Lines = strings.Split(strings.TrimSuffix(r.blockSource(n), "\n"), "\n")
	}
	if len(r.page.Headings) > 0 {
		b.Heading = r.page.Headings[len(r.page.Headings)-1].Text.Text
	}
	if before, ok := n.PreviousSibling().(*ast.HTMLBlock); ok {
		b.Mark, _ = r.mark(before)
		b.From, _ = r.from(before)
	}
	r.page.Blocks = append(r.page.Blocks, b)
}

func (r *reader) table(n *tables.Table) {
	var t Table
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			cells = append(cells, strings.TrimSpace(r.blockSource(cell)))
		}
		if _, ok := row.(*tables.TableHeader); ok {
			t.Head = cells
		} else {
			t.Rows = append(t.Rows, Row{r.line(row), cells})
		}
	}
	r.page.Tables = append(r.page.Tables, t)
}

// plain returns the text of a node without markup.
func (r *reader) plain(n ast.Node) string {
	var b strings.Builder
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		switch child := child.(type) {
		case *ast.Text:
			b.Write(child.Segment.Value(r.source))
			if child.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.String:
			b.Write(child.Value)
		default:
			b.WriteString(r.plain(child))
		}
	}
	return b.String()
}

// blockSource returns the source of a block.
func (r *reader) blockSource(n ast.Node) string { return string(n.Lines().Value(r.source)) }

// line returns the first line of a node, or of its block if the node has no position.
func (r *reader) line(n ast.Node) int {
	for ; n != nil; n = n.Parent() {
		if at := startOf(n); at >= 0 {
			return 1 + bytes.Count(r.source[:at], []byte("\n"))
		}
	}
	return 1
}

// startOf returns the first position of a node or of its children, or -1.
func startOf(n ast.Node) int {
	if t, ok := n.(*ast.Text); ok {
		return t.Segment.Start
	}
	if n.Type() == ast.TypeBlock && n.Lines().Len() > 0 {
		return n.Lines().At(0).Start
	}
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		if at := startOf(child); at >= 0 {
			return at
		}
	}
	return -1
}
