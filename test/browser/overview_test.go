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
	operator.await(is(node(orderService, "committed", "count"), "0"))
	operator.do(mark)
	s.place()
	operator.await(is(node(orderService, "committed", "count"), "1"))
	operator.await(shows(node(orderService, "published", "count"), "1"))
	// The numbers of the other service come through this one.
	operator.await(is(node(notificationService, "published", "count"), "1"))
	operator.wantMark()

	operator.press(".peer a")
	if got := value[string](operator, "location.href"); got != s.mails.page+"/" {
		t.Errorf("the link leads to %s, want %s", got, s.mails.page)
	}
	operator.await(is(node(notificationService, "published", "count"), "1"))
	operator.await(is(node(orderService, "committed", "count"), "1"))
	operator.press(".peer a")
	operator.want("order-service")
	if r := operator.visit(s.orders.page + "/nothing"); r.Status != http.StatusNotFound {
		t.Errorf("a page that does not exist answers %v", r.Status)
	}
}
