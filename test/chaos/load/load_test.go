package load_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/chaos/load"
)

func TestTheLedgerHasEveryAnswer(t *testing.T) {
	t.Parallel()
	answers := 0
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if answers++; strings.HasSuffix(r.URL.Path, "/cancel") {
			if answers == 2 {
				panic(http.ErrAbortHandler) // no answer
			}
			w.WriteHeader(http.StatusConflict) // it is cancelled already
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"order": {"id": "42", "amount": 2500, "currency": "GBP"}}`))
	}))
	t.Cleanup(api.Close)
	targets := []string{api.URL}
	l := load.New(func() []string { return targets }, 1, 1)
	l.Order(t.Context())
	targets = nil
	l.GiveUp()
	l.Order(t.Context())

	first := checker.Attempt{
		Email: "c000001@d1.example", Kind: checker.Place, Product: "sku124", Quantity: 2,
		OrderID: "42", Amount: 2500, Currency: "GBP", Outcome: checker.Acknowledged, Status: http.StatusCreated,
	}
	unanswered, cancelled := first, first
	unanswered.Kind, unanswered.Outcome, unanswered.Status = checker.Cancel, checker.Unknown, 0
	cancelled.Kind, cancelled.Status = checker.Cancel, http.StatusConflict
	notSent := checker.Attempt{Email: "c000002@d2.example", Kind: checker.Place, Product: "sku125", Quantity: 3, Outcome: checker.NotSent}
	want, got := []checker.Attempt{first, unanswered, cancelled, notSent}, l.Ledger()
	for i := range got {
		if acknowledged := got[i].Outcome == checker.Acknowledged; acknowledged != (got[i].Reason == "") {
			t.Errorf("the reason is %q", got[i].Reason)
		}
		got[i].Reason = ""
	}
	if !slices.Equal(got, want) {
		t.Errorf("the ledger is %+v, want %+v", got, want)
	}
}
