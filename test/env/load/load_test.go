package load_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/env/load"
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

	first := load.Attempt{
		Email: "c000001@d1.example", Kind: load.Place, Product: "sku124", Quantity: 2,
		OrderID: "42", Amount: 2500, Currency: "GBP", Outcome: load.Acknowledged, Status: http.StatusCreated,
	}
	unanswered, cancelled := first, first
	unanswered.Kind, unanswered.Outcome, unanswered.Status = load.Cancel, load.Unknown, 0
	cancelled.Kind, cancelled.Status = load.Cancel, http.StatusConflict
	notSent := load.Attempt{Email: "c000002@d2.example", Kind: load.Place, Product: "sku125", Quantity: 3, Outcome: load.NotSent}
	want, got := []load.Attempt{first, unanswered, cancelled, notSent}, l.Ledger()
	for i := range got {
		if acknowledged := got[i].Outcome == load.Acknowledged; acknowledged != (got[i].Reason == "") {
			t.Errorf("the reason is %q", got[i].Reason)
		}
		got[i].Reason = ""
	}
	if !slices.Equal(got, want) {
		t.Errorf("the ledger is %+v, want %+v", got, want)
	}
}
