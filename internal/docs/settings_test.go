package docs_test

import (
	"cmp"
	"slices"
	"strings"

	"example.com/transactional-outbox/internal/docs"
)

// both is the head of the table with the settings that both services have.
const both = "both services"

// settings holds the tables of the README against the code, in both directions.
func settings(r *repository, page docs.Page) (complaints []string) {
	if page.Path != "README.md" {
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
			if reason := r.wrongRow(owner, row.Cells, listed); reason != "" {
				complaints = append(complaints, at(docs.Text{Line: row.Line}, "%s", reason))
			}
		}
	}
	for _, s := range r.settings {
		if !listed[setting{s.owner, s.name, ""}] && !listed[setting{both, s.name, ""}] {
			complaints = append(complaints, s.name+" of "+s.owner+" is in no table")
		}
	}
	return complaints
}

// wrongRow compares names and defaults of a row with the code. Names that end in … are
// somebody else's.
func (r *repository) wrongRow(owner string, cells []string, listed map[setting]bool) string {
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
	if told := list(cells[1]); !slices.Equal(told, defaults) && !slices.Equal(told, slices.Compact(defaults)) {
		return cells[0] + " is " + strings.Join(defaults, ", ") + " in the code"
	}
	return ""
}

// setting returns the defaults of a setting, for one service or for both.
func (r *repository) setting(owner, name string) (defaults []string) {
	for _, s := range r.settings {
		if s.name == name && (s.owner == owner || owner == both) {
			defaults = append(defaults, cmp.Or(s.fallback, "none"))
		}
	}
	slices.Sort(defaults)
	return slices.Compact(defaults)
}

// list are the parts of a cell, without what sets them as code.
func list(cell string) []string {
	parts := strings.Split(cell, ", ")
	for i, part := range parts {
		parts[i] = cmp.Or(strings.Trim(part, "`"), "none")
	}
	return parts
}
