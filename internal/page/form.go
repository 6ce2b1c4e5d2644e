package page

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ChosenAction reads which button of a [Table] or of [Buttons] was pressed, and whether it is about
// all that match. Any other value than one of actions is an error for the user.
func (r *Request) ChosenAction(actions ...Action) (action Action, all bool, err error) {
	name := r.PostForm.Get("selected")
	if name == "" {
		name, all = r.PostForm.Get("all"), true
	}
	chosen := slices.IndexFunc(actions, func(a Action) bool { return a.Name == name })
	if chosen < 0 {
		var names []string
		for _, a := range actions {
			names = append(names, a.Name)
		}
		return Action{}, false, Errorf(http.StatusUnprocessableEntity, "The field selected or the field all must be %s.", strings.Join(names, " or "))
	}
	return actions[chosen], all, nil
}

// timeFormats are what browsers send for a time, with and without seconds, and what people write.
var timeFormats = []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339}

// ParseTime returns the time of a [TimeInput], in UTC.
func ParseTime(value string) (time.Time, error) {
	for _, format := range timeFormats {
		if at, err := time.Parse(format, value); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, errors.New("It is not a time such as 2026-01-31T08:00.") //nolint:staticcheck // a user reads it, as a sentence
}
