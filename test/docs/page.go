// Package docs parses the README and the chapters. Its tests compare them with the repository, and
// test/docs/execute runs their console blocks.
package docs

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
)

// Page has the parts of a Markdown file that can be compared with the repository.
type Page struct {
	Path     string // from the repository's root
	Length   int    // in lines
	Headings []Heading
	Links    []Text // targets of links and images
	Spans    []Text // `code` inside text
	Prose    []Text // source of each paragraph, list item and table cell
	Blocks   []Block
	Tables   []Table
}

// Text is a part of a page, and its first line.
type Text struct {
	Line int
	Text string
}

// Heading is a heading, and its anchor in links.
type Heading struct {
	Text

	Anchor string
}

// Block is fenced code.
type Block struct {
	Line     int // of the first line of the code
	Language string
	Heading  string // the heading above
	Mark     string // the text after "run:" in the comment before it
	From     string // the text after "from:" in that comment: the file of a quote
	Lines    []string
}

// Table is a table of a page.
type Table struct {
	Head []string
	Rows []Row
}

// Row is a row of a table, with the source of its cells.
type Row struct {
	Line  int
	Cells []string
}

// Parse parses a page. It returns an error for invalid marks.
func Parse(path string, source []byte) (Page, error) {
	r := reader{source: source, anchors: map[string]int{}}
	r.page.Path = filepath.ToSlash(path)
	r.page.Length = bytes.Count(source, []byte("\n"))
	return r.read()
}

// ReadFile parses a file. Its path is relative to root.
func ReadFile(root, path string) (Page, error) {
	source, err := os.ReadFile(filepath.Join(root, path)) //nolint:gosec // the caller chooses the file
	if err != nil {
		return Page{}, err
	}
	return Parse(path, source)
}

// All returns the paths of all pages in reading order: the README, the chapters, the examples.
func All(root string) ([]string, error) {
	paths := []string{"README.md"}
	for _, pattern := range []string{"docs/*.md", "examples/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		for _, path := range slices.Sorted(slices.Values(found)) {
			path, err := filepath.Rel(root, path)
			if err != nil {
				return nil, err
			}
			paths = append(paths, path)
		}
	}
	return paths, nil
}
