package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"

	"example.com/transactional-outbox/test/jsonfile"
	"example.com/transactional-outbox/test/suite"
)

// result is the result of one run of one row, and one object in compare.json.
type result struct {
	Design   string `json:"design"`
	Fault    string `json:"fault"`
	Peer     string `json:"peer,omitempty"` // the libraries of the design, with their versions
	Seed     uint64 `json:"seed"`
	Orders   int    `json:"orders"`   // requests that were answered with success
	Injected int    `json:"injected"` // how often the fault happened
	figures
	Recovery *float64 `json:"recovery_s"` // from the end of the fault; null: something is stuck
	Code     string   `json:"code"`       // the version of the programs
}

// figures are judge.Figures with the names of compare.json.
type figures struct {
	Lost       int `json:"lost"`
	Phantom    int `json:"phantom"`
	Repeated   int `json:"repeated"`
	OutOfOrder int `json:"out_of_order"`
	Stuck      int `json:"stuck"`
	Buried     int `json:"buried"`
}

// each returns the figures with their names in the table.
func (f figures) each() []figure {
	return []figure{
		{"lost", f.Lost},
		{"phantom", f.Phantom},
		{"repeated", f.Repeated},
		{"out of order", f.OutOfOrder},
		{"stuck", f.Stuck},
		{"buried", f.Buried},
	}
}

type figure struct {
	name  string
	value int
}

// String returns the figures that are not zero.
func (f figures) String() string {
	var all []string
	for _, one := range f.each() {
		if one.value > 0 {
			all = append(all, fmt.Sprint(one.name, " ", one.value))
		}
	}
	return cmp.Or(strings.Join(all, ", "), "safe")
}

func (r result) String() string {
	recovery := "never finished"
	if r.Recovery != nil {
		recovery = fmt.Sprintf("finished after %.1f s", *r.Recovery)
	}
	return fmt.Sprintf("%d orders, %s, %s", r.Orders, r.figures, recovery)
}

// results is the file compare.json.
type results struct {
	path, code string
	mu         sync.Mutex
	all        []result
}

// openResults reads the file. Results of another version of the programs are moved to another file.
func openResults(path, code string) (*results, error) {
	book := &results{path: path, code: code}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return book, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &book.all)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w; delete the file, or choose another folder with OUTPUT", path, err)
	}
	isOld := func(r result) bool { return r.Code != code }
	if slices.ContainsFunc(book.all, isOld) {
		old := strings.TrimSuffix(path, ".json") + ".old.json"
		suite.Progress("the code has changed, so every row runs again; the old results are in %s", old)
		err = os.Rename(path, old)
	}
	book.all = slices.DeleteFunc(book.all, isOld)
	return book, err
}

// add adds a result, or replaces it, and writes the file.
func (b *results) add(r result) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = slices.DeleteFunc(b.all, func(old result) bool {
		return old.Design == r.Design && old.Fault == r.Fault && old.Seed == r.Seed
	})
	b.all = append(b.all, r)
	return jsonfile.Write(b.path, b.all)
}

// find returns the result of a row.
func (b *results) find(r row) (result, bool) {
	i := slices.IndexFunc(b.all, func(one result) bool {
		return one.Design == r.design.name && one.Fault == r.fault.name && one.Seed == r.seed
	})
	if i < 0 {
		return result{}, false
	}
	return b.all[i], true
}

// unfinished returns the chosen rows that have no result yet. With FRESH=1 these are all.
func (b *results) unfinished(o options) []row {
	return slices.DeleteFunc(o.rows(), func(r row) bool {
		_, finished := b.find(r)
		return finished && !o.Fresh
	})
}

// chosen returns the results of the chosen rows.
func (b *results) chosen(o options) (all []result) {
	for _, r := range o.rows() {
		if one, finished := b.find(r); finished {
			all = append(all, one)
		}
	}
	return all
}
