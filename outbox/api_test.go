package outbox_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write api.txt: scripts/release does it")

// TestTheChangelogNamesEachChangeOfTheAPI since the last release: api.txt has the exported names of
// that release, with their types.
func TestTheChangelogNamesEachChangeOfTheAPI(t *testing.T) {
	t.Parallel()
	now := exported(t)
	if *update {
		must(t, os.WriteFile("api.txt", []byte(strings.Join(now, "\n")+"\n"), 0o600))
	}
	released, err := os.ReadFile("api.txt")
	must(t, err)
	before := strings.Split(strings.TrimSpace(string(released)), "\n")
	changelog, err := os.ReadFile("CHANGELOG.md")
	must(t, err)
	_, news, _ := strings.Cut(string(changelog), "\n## Unreleased\n")
	news, _, _ = strings.Cut(news, "\n## ")
	if len(before) < 100 {
		t.Errorf("api.txt has %d names", len(before))
	}
	for _, line := range slices.Concat(now, before) {
		if slices.Contains(now, line) && slices.Contains(before, line) {
			continue
		}
		name, _, _ := strings.Cut(line, " ")
		if name = strings.TrimPrefix(name, "outbox."); !strings.Contains(news, "`"+name+"`") {
			t.Errorf("%q has changed, and CHANGELOG.md does not name `%s` below \"## Unreleased\"", line, name)
		}
	}
}

// exported returns a line for each exported name of the module: package.name, and its type.
func exported(t *testing.T) (lines []string) {
	t.Helper()
	must(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "internal" || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.FileExports(file)
		for _, decl := range file.Decls {
			for name, what := range names(decl) {
				lines = append(lines, fmt.Sprintf("%s.%s %s", file.Name.Name, name, source(t, what)))
			}
		}
		return nil
	}))
	slices.Sort(lines)
	return lines
}

// names returns the exported names of a declaration, with what may not change without a note.
func names(decl ast.Decl) map[string]any {
	found := map[string]any{}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			receiver := d.Recv.List[0].Type
			if pointer, is := receiver.(*ast.StarExpr); is {
				receiver = pointer.X
			}
			if generic, is := receiver.(*ast.IndexExpr); is {
				receiver = generic.X
			}
			if !receiver.(*ast.Ident).IsExported() { //nolint:forcetypeassert // nothing else is left
				break
			}
			name = receiver.(*ast.Ident).Name + "." + name //nolint:forcetypeassert // as above
		}
		found[name] = d.Type
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				for _, name := range s.Names {
					found[name.Name] = s.Type
				}
			case *ast.TypeSpec:
				found[s.Name.Name] = s.Type
				if structure, is := s.Type.(*ast.StructType); is {
					found[s.Name.Name] = ast.NewIdent("struct")
					for _, field := range structure.Fields.List {
						for _, name := range field.Names {
							found[s.Name.Name+"."+name.Name] = field.Type
						}
						if embedded, is := field.Type.(*ast.Ident); is && field.Names == nil {
							found[s.Name.Name+"."+embedded.Name] = ast.NewIdent("embedded")
						}
					}
				}
			}
		}
	}
	return found
}

// source is a type in one line. A constant or a variable may have none.
func source(t *testing.T, what any) string {
	t.Helper()
	if what == nil {
		return "value"
	}
	var text bytes.Buffer
	must(t, format.Node(&text, token.NewFileSet(), what))
	return strings.Join(strings.Fields(text.String()), " ")
}
