package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const root = "../.."

// repository has the names that pages may use.
type repository struct {
	pages    []string
	folders  []string            // at the root
	targets  []string            // of the Makefile
	files    map[string][]string // declared names by Go file; methods as Type.Name
	packages map[string][]string // the same by package
	tests    map[string][]string // by package
	words    map[string]bool     // in all files except Markdown
	settings []setting
}

// setting is an environment variable that a service reads.
type setting struct{ owner, name, fallback string }

// readRepository reads the repository once for all tests.
var readRepository = sync.OnceValues(func() (*repository, error) {
	r := &repository{
		files: map[string][]string{}, packages: map[string][]string{}, tests: map[string][]string{}, words: map[string]bool{},
	}
	return r, fs.WalkDir(os.DirFS(root), ".", r.visit)
})

func theRepository(t *testing.T) *repository {
	t.Helper()
	r, err := readRepository()
	must(t, err)
	return r
}

// ignored are generated files, and this package, whose tests use names that do not exist.
var ignored = []string{".git", ".stack", "build", "test/docs", "go.sum"}

func (r *repository) visit(name string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if slices.Contains(ignored, name) && entry.IsDir() {
		return fs.SkipDir
	}
	if entry.IsDir() {
		if path.Dir(name) == "." && name != "." {
			r.folders = append(r.folders, name)
		}
		return nil
	}
	switch {
	case slices.Contains(ignored, name), strings.Contains(name, "testdata/"), !entry.Type().IsRegular():
		return nil
	case path.Ext(name) == ".md":
		r.pages = append(r.pages, name)
		return nil
	}
	return r.file(name)
}

var (
	word   = regexp.MustCompile(`\w+`)
	target = regexp.MustCompile(`(?m)^([a-z][a-z-]*):`)
)

func (r *repository) file(name string) error {
	source, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return err
	}
	for _, w := range word.FindAllString(string(source), -1) {
		r.words[w] = true
	}
	if name == "Makefile" {
		for _, m := range target.FindAllSubmatch(source, -1) {
			r.targets = append(r.targets, string(m[1]))
		}
	}
	if path.Ext(name) != ".go" {
		return nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	r.goFile(name, file)
	return nil
}

func (r *repository) goFile(name string, file *ast.File) {
	pkg := path.Base(path.Dir(name))
	for _, d := range file.Decls {
		r.files[name] = append(r.files[name], declared(d)...)
	}
	if strings.HasSuffix(name, "_test.go") {
		r.tests[pkg] = append(r.tests[pkg], r.files[name]...)
		return
	}
	r.packages[pkg] = append(r.packages[pkg], r.files[name]...)
	switch owner, rest, _ := strings.Cut(name, "/"); {
	case strings.HasPrefix(rest, "bench/"):
	case owner == "order-service", owner == "notification-service":
		r.settings = append(r.settings, settingsIn(file, owner)...)
	case strings.HasPrefix(name, "internal/settings/"):
		r.settings = append(r.settings, settingsIn(file, both)...)
	}
}

// declared returns the names of a declaration.
func declared(d ast.Decl) (names []string) {
	if f, ok := d.(*ast.FuncDecl); ok {
		if receiver := receiver(f); receiver != "" {
			names = append(names, receiver+"."+f.Name.Name)
		}
		return append(names, f.Name.Name)
	}
	for _, spec := range d.(*ast.GenDecl).Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			names = append(names, spec.Name.Name)
			names = append(names, fields(spec)...)
		case *ast.ValueSpec:
			for _, name := range spec.Names {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

func receiver(f *ast.FuncDecl) (name string) {
	if f.Recv == nil {
		return ""
	}
	ast.Inspect(f.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == ""
	})
	return name
}

// fields returns the fields of a struct, or the methods of an interface, as Type.Name.
func fields(spec *ast.TypeSpec) (names []string) {
	var list *ast.FieldList
	switch t := spec.Type.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		for _, name := range field.Names {
			names = append(names, spec.Name.Name+"."+name.Name)
		}
	}
	return names
}

// settingsIn returns the settings of fields with an env tag.
func settingsIn(file *ast.File, owner string) (found []setting) {
	ast.Inspect(file, func(n ast.Node) bool {
		field, ok := n.(*ast.Field)
		if !ok || field.Tag == nil {
			return true
		}
		text, err := strconv.Unquote(field.Tag.Value)
		tag := reflect.StructTag(text)
		if name, _, _ := strings.Cut(tag.Get("env"), ","); err == nil && name != "" {
			found = append(found, setting{owner, name, tag.Get("envDefault")})
		}
		return true
	})
	return found
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
