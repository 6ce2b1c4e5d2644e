package httpapi_test

import (
	"net/http"
	"testing"
)

func TestAnOrderIsConfirmedOrCancelledOnce(t *testing.T) {
	t.Parallel()
	b := newFixture(t)
	for path, status := range map[string]string{"confirm": "confirmed", "cancel": "cancelled"} {
		order := "/orders/" + b.place(oneMug).ID.String()
		var answer struct {
			Order orderView `json:"order"`
		}
		b.send(http.MethodPost, order+"/"+path, "").into(t, http.StatusOK, &answer)
		if answer.Order.Status != status {
			t.Errorf("after /%s the order is %s", path, answer.Order.Status)
		}
		for _, again := range []string{"confirm", "cancel"} {
			b.send(http.MethodPost, order+"/"+again, "").isProblem(t, http.StatusConflict)
		}
	}
	for _, missing := range []string{"00000000-0000-0000-0000-000000000000", "01a1fdcf-5fed-71b2-b722-684f3f08e75e", "x"} {
		b.send(http.MethodPost, "/orders/"+missing+"/confirm", "").isProblem(t, http.StatusNotFound)
	}
}
