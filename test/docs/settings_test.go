package docs_test

import (
	"cmp"
	"slices"
	"strings"

	"example.com/transactional-outbox/test/docs"
)

const settingsPage = "docs/reference.md"

// both is the head of the table with the settings of both services.
const both = "both services"

// settings compares the tables of settingsPage with the code, in both directions.
func settings(r *repository, page docs.Page) (problems []string) {
	if page.Path != settingsPage {
		return nil
	}
	listed := map[setting]bool{} // without defaults
	for _, table := range page.Tables {
		owner := ""
		if len(table.Head) > 1 && table.Head[1] == "default" {
			owner = table.Head[0]
		}
		if owner == "" {
			continue
		}
		for _, row := range table.Rows {
			if reason := r.rowError(owner, row.Cells, listed); reason != "" {
				problems = append(problems, errorAt(docs.Text{Line: row.Line}, "%s", reason))
			}
		}
	}
	for _, s := range r.settings {
		if !listed[setting{s.owner, s.name, ""}] && !listed[setting{both, s.name, ""}] {
			problems = append(problems, s.name+" of "+s.owner+" is in no table")
		}
	}
	return problems
}

// rowError compares the names and defaults of a row with the code. It ignores names with …, which
// are not read by our code.
func (r *repository) rowError(owner string, cells []string, listed map[setting]bool) string {
	var defaults []string
	for _, name := range list(cells[0]) {
		if strings.HasSuffix(name, "…") {
			return ""
		}
		of := r.setting(owner, name)
		if of == nil {
			return owner + " has no setting " + name
		}
		listed[setting{owner, name, ""}] = true
		defaults = append(defaults, of...)
	}
	if listed := list(cells[1]); !slices.Equal(listed, defaults) && !slices.Equal(listed, slices.Compact(defaults)) {
		return cells[0] + " is " + strings.Join(defaults, ", ") + " in the code"
	}
	return ""
}

// setting returns the defaults of a setting.
func (r *repository) setting(owner, name string) (defaults []string) {
	for _, s := range r.settings {
		if s.name == name && (s.owner == owner || owner == both) {
			defaults = append(defaults, cmp.Or(s.fallback, "none"))
		}
	}
	slices.Sort(defaults)
	return slices.Compact(defaults)
}

// list returns the parts of a cell without code markup.
func list(cell string) []string {
	parts := strings.Split(cell, ", ")
	for i, part := range parts {
		parts[i] = cmp.Or(strings.Trim(part, "`"), "none")
	}
	return parts
}
