package operate_test

import (
	"os"
	"reflect"
	"regexp"
	"testing"

	"example.com/transactional-outbox/outbox/operate"
)

// TestTheDocumentationNamesTheFields of the types that package store defines: go doc shows only the
// comment of an alias.
func TestTheDocumentationNamesTheFields(t *testing.T) {
	t.Parallel()
	for file, of := range map[string]reflect.Type{
		"../relay.go": reflect.TypeFor[operate.Backlog](), "operator.go": reflect.TypeFor[operate.Totals](),
	} {
		source, err := os.ReadFile(file)
		must(t, err)
		comment := regexp.MustCompile(`(?:\n//.*)+\ntype ` + of.Name() + ` = `).Find(source)
		for _, f := range reflect.VisibleFields(of) {
			if !regexp.MustCompile(`//\t.*\b` + f.Name + `\b`).Match(comment) {
				t.Errorf("%s: the comment of %s does not name %s", file, of.Name(), f.Name)
			}
		}
	}
}
