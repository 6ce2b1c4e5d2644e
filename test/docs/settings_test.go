package docs_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"example.com/transactional-outbox/test/docs"
)

// settingsPage has a table of settings for each service, and one for both.
const settingsPage = "docs/reference.md"

// owners are the places of the settings in the code, and the heads of their tables.
var owners = map[string]string{
	"order-service/*.go": "order-service", "notification-service/*.go": "notification-service",
	"internal/settings/*.go": "both services",
}

var envTag = regexp.MustCompile(`env:"(\w+)[^"]*"(?: envDefault:"([^"]*)")?`)

// settings compares the names and the defaults in the tables with the code, in both directions.
func settings(page docs.Page) (problems []string) {
	if page.Path != settingsPage {
		return nil
	}
	inCode, err := settingsInCode()
	if err != nil {
		return []string{err.Error()}
	}
	for _, table := range page.Tables {
		if len(table.Head) < 2 || table.Head[1] != "default" {
			continue
		}
		for _, row := range table.Rows {
			for _, s := range settingsOf(row.Cells) {
				if owner := inCode[s]; owner == "" || table.Head[0] != "both services" && owner != table.Head[0] {
					problems = append(problems, fmt.Sprintf("line %d: %s of %s is not so in the code", row.Line, s, table.Head[0]))
				}
				inCode[s] = "listed"
			}
		}
	}
	for s, owner := range inCode {
		if owner != "listed" {
			problems = append(problems, fmt.Sprintf("%s of %s is in no table", s, owner))
		}
	}
	return problems
}

// settingsInCode returns the owners of settings, which are written as "NAME = default".
func settingsInCode() (map[string]string, error) {
	found := map[string]string{}
	for pattern, owner := range owners {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			source, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			for _, m := range envTag.FindAllStringSubmatch(string(source), -1) {
				found[m[1]+" = "+cmp.Or(m[2], "none")] = owner
			}
		}
	}
	return found, nil
}

// settingsOf returns the settings of a row: several names with one default or with one each, or one
// name with a default for each service. What ends with … is not read by our code.
func settingsOf(cells []string) (settings []string) {
	names, defaults := list(cells[0]), list(cells[1])
	for i := range max(len(names), len(defaults)) {
		name, value := names[min(i, len(names)-1)], defaults[min(i, len(defaults)-1)]
		if !strings.HasSuffix(name, "…") {
			settings = append(settings, name+" = "+value)
		}
	}
	return settings
}

// list returns the parts of a cell without code markup.
func list(cell string) []string {
	return strings.Split(strings.ReplaceAll(cell, "`", ""), ", ")
}
