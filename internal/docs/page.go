// Package docs reads Markdown: the README and the chapters. Its tests hold what they
// name against the repository; scripts/readme runs their console blocks.
package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
)

// Page is a Markdown file, as far as it can be held against the repository.
type Page struct {
	Path     string // from the repository's root
	Length   int    // in lines
	Headings []Heading
	Links    []Text // their targets, those of images too
	Spans    []Text // `code` inside text
	Prose    []Text // each paragraph, item and cell as it is written
	Blocks   []Block
	Tables   []Table
}

// Text is a part of a page, and the line that it begins in.
type Text struct {
	Line int
	Text string
}

// Heading is one of a page, with the name that a link after # gives it.
type Heading struct {
	Text

	Anchor string
}

// Block is fenced code.
type Block struct {
	Line     int // of the first line of the code
	Language string
	Heading  string // what it stands under
	Mark     string // the comment before it: what stands behind "run:"
	Lines    []string
}

// Table is one of a page.
type Table struct {
	Head []string
	Rows []Row
}

// Row is a line of a table, its cells as they are written.
type Row struct {
	Line  int
	Cells []string
}

// Parse reads a page. The error says which of its marks nobody understands.
func Parse(path string, source []byte) (Page, error) {
	r := reader{source: source, anchors: map[string]int{}}
	r.page.Path = filepath.ToSlash(path)
	r.page.Length = bytes.Count(source, []byte("\n"))
	return r.read()
}

// ReadFile parses the file of a page. Its path is relative to root.
func ReadFile(root, path string) (Page, error) {
	source, err := os.ReadFile(filepath.Join(root, path)) //nolint:gosec // who runs it names the file
	if err != nil {
		return Page{}, err
	}
	return Parse(path, source)
}

// All are the paths of what a person reads: the README first, and then the chapters.
func All(root string) ([]string, error) {
	chapters, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		return nil, err
	}
	paths := []string{"README.md"}
	for _, path := range slices.Sorted(slices.Values(chapters)) {
		paths = append(paths, filepath.Join("docs", filepath.Base(path)))
	}
	return paths, nil
}
