package browser

import (
	"net/http"
	"testing"
)

func TestAnOrderAppearsByItself(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	operator := newPerson(t)
	operator.visit(s.orders.page + "/")
	operator.await(is("[data-live]", "Live"))
	operator.await(is(node("committed"), "0"))
	operator.do(mark)
	s.place()
	operator.await(is(node("committed"), "1"))
	operator.await(shows(node("published"), "1"))
	operator.wantMark()
	if r := operator.visit(s.orders.page + "/nothing"); r.Status != http.StatusNotFound {
		t.Errorf("a page that does not exist answers %v", r.Status)
	}
}
