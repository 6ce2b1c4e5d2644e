package docs_test

import (
	"os"
	"path/filepath"
	"strings"

	"example.com/transactional-outbox/test/docs"
)

// quotes requires that code after a comment "from: FILE" is in this file.
func quotes(_ *repository, page docs.Page) (problems []string) {
	for _, block := range page.Blocks {
		if block.From == "" {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, block.From))
		if err != nil {
			problems = append(problems, errorAt(docs.Text{Line: block.Line}, "there is no %s", block.From))
			continue
		}
		if part, missing := block.NotIn(string(source)); missing {
			first, _, _ := strings.Cut(part, "\n")
			problems = append(problems, errorAt(docs.Text{Line: block.Line}, "%s has no %q", block.From, first))
		}
	}
	return problems
}
