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
	"regexp"
	"slices"
	"strconv"
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

// exported returns a line for each exported name of the module: folder.name, and its declaration.
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
		folder := filepath.ToSlash(filepath.Dir(path))
		if folder == "." {
			folder = "outbox"
		}
		for _, decl := range file.Decls {
			for name, what := range names(t, decl) {
				lines = append(lines, fmt.Sprintf("%s.%s %s", folder, name, what))
			}
		}
		return nil
	}))
	slices.Sort(lines)
	return lines
}

// base finds the name of a type without its pointer, its package and its type parameters.
var base = regexp.MustCompile(`^\*?(?:\w+\.)?(\w+)`)

// names returns the exported names of a declaration, with what may not change without a note.
func names(t *testing.T, decl ast.Decl) map[string]string {
	t.Helper()
	found := map[string]string{}
	switch d := decl.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		d.Body = nil
		if d.Recv != nil {
			d.Recv.List[0].Names = nil
			name = base.FindStringSubmatch(source(t, d.Recv.List[0].Type))[1] + "." + name
		}
		if ast.IsExported(name) {
			found[name] = source(t, d)
		}
	case *ast.GenDecl:
		var constant ast.ValueSpec // the last one with a value
		for i, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.ValueSpec:
				switch {
				case d.Tok == token.VAR:
					s.Values = nil
				case s.Values == nil:
					s.Type, s.Values = constant.Type, constant.Values
				default:
					constant = *s
				}
				for _, name := range s.Names {
					found[name.Name] = d.Tok.String() + " " + strings.ReplaceAll(source(t, s), "iota", strconv.Itoa(i))
				}
			case *ast.TypeSpec:
				if structure, is := s.Type.(*ast.StructType); is {
					for _, field := range structure.Fields.List {
						what := source(t, field.Type)
						embedded := base.FindStringSubmatch(what)
						if field.Tag != nil {
							what += " " + field.Tag.Value
						}
						for _, name := range field.Names {
							found[s.Name.Name+"."+name.Name] = what
						}
						if field.Names == nil {
							found[s.Name.Name+"."+embedded[1]] = "embedded " + what
						}
					}
					s.Type = ast.NewIdent("struct")
				}
				found[s.Name.Name] = "type " + source(t, s)
			}
		}
	}
	return found
}

// source is a declaration or a type in one line.
func source(t *testing.T, what any) string {
	t.Helper()
	var text bytes.Buffer
	must(t, format.Node(&text, token.NewFileSet(), what))
	return strings.Join(strings.Fields(text.String()), " ")
}
