package panics_test

import (
	"errors"
	"testing"

	"example.com/transactional-outbox/internal/panics"
)

func TestAPanicBecomesAnError(t *testing.T) {
	t.Parallel()
	err := panics.Catch(t.Context(), func() error { panic("a bug") })
	if err == nil || err.Error() != "panic: a bug" {
		t.Errorf("error %v", err)
	}
	failed := errors.New("the work failed")
	if err := panics.Catch(t.Context(), func() error { return failed }); !errors.Is(err, failed) {
		t.Errorf("without a panic: error %v", err)
	}
}
