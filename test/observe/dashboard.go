package observe

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Dashboard has the parts of a file in grafana/dashboards that the tests check.
type Dashboard struct {
	File        string `json:"-"`
	JSON        []byte `json:"-"`
	UID         string
	Title       string
	Description string
	Tags        []string
	Panels      []Panel
	Annotations struct{ List []Annotation }
}

// Annotation marks events in every panel.
type Annotation struct {
	Name       string
	Datasource Datasource
	Expr       string
}

// Panel is a panel of a dashboard.
type Panel struct {
	ID          int
	Type        string
	Title       string
	Description string
	GridPos     struct{ X, Y, W, H int }
	Datasource  Datasource
	Targets     []Target
	FieldConfig struct {
		Defaults  Defaults
		Overrides []struct {
			Matcher struct {
				ID      string
				Options string
			}
		}
	}
}

// Defaults has a panel's settings for showing values.
type Defaults struct {
	Unit     string
	NoValue  string
	Mappings []struct {
		Options struct {
			Match  string
			Result struct{ Color string }
		}
	}
	Thresholds struct {
		Mode  string
		Steps []struct {
			Color string
			Value *float64
		}
	}
	Custom struct{ ThresholdsStyle struct{ Mode string } }
}

// Datasource is the data source of a query.
type Datasource struct{ Type, UID string }

// Target is one query of a panel.
type Target struct {
	RefID        string
	Expr         string
	LegendFormat string
	Instant      bool
	Range        bool
	Exemplar     bool
}

// Dashboards reads all dashboards.
func Dashboards(root string) (dashboards []Dashboard, err error) {
	folder := os.DirFS(filepath.Join(root, "grafana", "dashboards"))
	files, err := fs.Glob(folder, "*.json")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		d := Dashboard{File: file}
		if d.JSON, err = fs.ReadFile(folder, file); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(d.JSON, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		dashboards = append(dashboards, d)
	}
	return dashboards, nil
}

// Colour is the colour of a value by the panel's thresholds.
func (p Panel) Colour(value float64) (colour string) {
	for _, step := range p.FieldConfig.Defaults.Thresholds.Steps {
		if step.Value == nil || *step.Value <= value {
			colour = step.Color
		}
	}
	return colour
}
