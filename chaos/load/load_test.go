package load_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.com/transactional-outbox/chaos/checker"
	"example.com/transactional-outbox/chaos/load"
)

func TestTheLedgerSaysWhatTheClientWasTold(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/cancel") {
			panic(http.ErrAbortHandler) // no answer
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write([]byte(`{"order": {"id": "42"}}`))
	}))
	t.Cleanup(api.Close)
	targets := []string{api.URL}
	l := load.New(func() []string { return targets }, 1, 1)
	l.Accuse(true)
	l.Order(t.Context())
	targets = nil
	l.Order(t.Context())

	notSent := checker.Attempt{Email: "c000002@load.example", Kind: checker.Place, Outcome: checker.NotSent, Accused: true}
	want := []checker.Attempt{
		{Email: "c000001@load.example", Kind: checker.Place, OrderID: "42", Outcome: checker.Acknowledged, Status: http.StatusCreated, Accused: true},
		{Email: "c000001@load.example", Kind: checker.Cancel, OrderID: "42", Outcome: checker.Unknown, Accused: true},
		notSent, notSent, notSent, // each is a request of its own, for the same order
	}
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
