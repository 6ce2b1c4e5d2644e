package docs_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/docs"
)

// TestTheFolderToCopyBuilds does what docs/copy-it.md says under "Copy one folder". But `go mod tidy`
// would take the newest dependencies from the network. So the copy has the versions of the library.
func TestTheFolderToCopyBuilds(t *testing.T) {
	t.Parallel()
	page, err := docs.ReadFile(root, "docs/copy-it.md")
	must(t, err)
	block := page.Blocks[slices.IndexFunc(page.Blocks, func(b docs.Block) bool { return b.Heading == "Copy one folder" })]
	const versions = `mkdir -p ~/shop/internal
sed 's#^module .*#module github.com/acme/shop#' outbox/go.mod >~/shop/go.mod
cp outbox/go.sum ~/shop
`
	build := "go build ./... && go list -deps ./... >packages && ! grep ^example.com/transactional-outbox/outbox packages"
	steps := versions + strings.Replace(strings.Join(block.Lines, "\n"), "go mod tidy", build, 1)
	if !strings.HasSuffix(steps, build) {
		t.Fatalf("the page does not end with go mod tidy: %q", block.Lines)
	}
	shell := exec.CommandContext(t.Context(), "bash", "-euc", strings.ReplaceAll(steps, "~", t.TempDir()))
	shell.Dir, shell.Env = root, append(os.Environ(), "GOWORK=off")
	if output, err := shell.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	// On Windows, too, a script must start. Without Git nothing is checked.
	eol, err := exec.CommandContext(t.Context(), "git", "-C", root, "check-attr", "eol", "scripts/rename").Output()
	if err == nil && !strings.HasSuffix(string(eol), ": lf\n") {
		t.Errorf("%s", eol)
	}
}
