package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestAFormOfAnotherOriginIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ids := texts(s.failEvents(1))
	attacker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!doctype html>
<form method="post" action="%[1]s/failed/preview"><input name="id" value="%[2]s"><button name="selected" value="discard">Win</button></form>
<a href="%[1]s/failed">A link</a>
<iframe src="%[1]s/failed"></iframe>
<script>
window.events = new EventSource("%[1]s/events");
window.events.onerror = () => { document.title = "refused"; };
window.events.addEventListener("numbers", () => { document.title = "read"; });
</script>`, s.orders.page, ids)
	}))
	t.Cleanup(attacker.Close)
	operator := newPerson(t)
	operator.quiet = false // the browser complains about what is refused
	operator.visit(attacker.URL)
	operator.await(`document.title !== ""`)
	if title := value[string](operator, "document.title"); title != "refused" {
		t.Errorf("another origin has %s the numbers", title)
	}
	if framed := value[bool](operator, "document.querySelector('iframe').contentDocument !== null"); framed {
		t.Error("the frame is of the same origin, so it shows nothing about this test")
	}
	answer := operator.press("button")
	if answer.Status != http.StatusForbidden || !strings.Contains(operator.text(), "Nothing was changed") {
		t.Errorf("the form is answered with %v:\n%s", answer.Status, operator.text())
	}
	operator.visit(attacker.URL)
	if answer := operator.press("a"); answer.Status != http.StatusOK {
		t.Errorf("a link of another site is answered with %v", answer.Status)
	}
	operator.want(ids)
}
