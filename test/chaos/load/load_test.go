package load_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.com/transactional-outbox/test/chaos/checker"
	"example.com/transactional-outbox/test/chaos/load"
)

func TestTheLedgerHasEveryAnswer(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/cancel") {
			panic(http.ErrAbortHandler) // no answer
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"order": {"id": "42", "amount": 2500, "currency": "GBP"}}`))
	}))
	t.Cleanup(api.Close)
	targets := []string{api.URL}
	l := load.New(func() []string { return targets }, 1, 1)
	l.SetMustSucceed(true)
	l.Order(t.Context())
	targets = nil
	l.Order(t.Context())

	first := checker.Attempt{
		Email: "c000001@d1.example", Kind: checker.Place, Product: "sku124", Quantity: 2,
		OrderID: "42", Amount: 2500, Currency: "GBP", Outcome: checker.Acknowledged, Status: http.StatusCreated, MustSucceed: true,
	}
	cancelled := first
	cancelled.Kind, cancelled.Outcome, cancelled.Status = checker.Cancel, checker.Unknown, 0
	notSent := checker.Attempt{
		Email: "c000002@d2.example", Kind: checker.Place, Product: "sku125", Quantity: 3, Outcome: checker.NotSent, MustSucceed: true,
	}
	want := []checker.Attempt{first, cancelled, notSent, notSent, notSent} // three requests for the same order
	got := l.Ledger()
	if len(got) != len(want) {
		t.Fatalf("the ledger is %+v", got)
	}
	for i := range want {
		if acknowledged := want[i].Outcome == checker.Acknowledged; acknowledged != (got[i].Reason == "") {
			t.Errorf("the reason is %q", got[i].Reason)
		}
		got[i].Reason = ""
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}
