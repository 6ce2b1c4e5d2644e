package browser

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"golang.org/x/crypto/bcrypt"
)

// TestAnotherSiteCannotDecide in the name of who visits it, and cannot show the page in a frame.
func TestAnotherSiteCannotDecide(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	id := s.fail(1, "order.created", "a queue refused it")
	attacker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!doctype html><iframe src="%[1]s"></iframe><a href="%[1]sevent?id=%[2]s">A link</a>
			<form method="post" action="%[1]sdecide"><input name="action" value="discard"><input name="id" value="%[2]s"><button>Win</button></form>`, s.orders.page, id)
	}))
	t.Cleanup(attacker.Close)
	victim := newPerson(t)
	victim.visit(attacker.URL)
	tree := get(victim, func(ctx context.Context, t *chromedp.Target) (cdppage.GetFrameTreeResult, error) {
		return cdp.Call(ctx, t, cdppage.GetFrameTree, cdp.Empty{})
	})
	if frame := tree.FrameTree.ChildFrames[0].Frame; frame.UnreachableURL != s.orders.page {
		t.Errorf("the frame shows the page: %+v", frame)
	}
	if answer := victim.click("Win"); answer.Status != http.StatusForbidden {
		t.Errorf("the form is answered with %d", answer.Status)
	}
	victim.want("Nothing was changed")
	victim.visit(attacker.URL)
	victim.click("A link")
	victim.want("failed", "a queue refused it")
}

// TestUsersLogIn with the file that the settings name: one may look, and one may decide.
func TestUsersLogIn(t *testing.T) {
	t.Parallel()
	file := "basic_auth_users:\n"
	for _, name := range []string{"rob", "ann"} {
		hash, err := bcrypt.GenerateFromPassword([]byte("of-"+name), bcrypt.MinCost)
		must(t, err)
		file += fmt.Sprintf("  %s: '%s'\n", name, hash)
	}
	users := filepath.Join(t.TempDir(), "users.yml")
	must(t, os.WriteFile(users, []byte(file), 0o600))
	s := newSite(t, "PAGE_USERS_FILE="+users, "PAGE_OPERATORS=ann")
	s.fail(1, "order.created", "a queue refused it")
	withLogin := func(login string) string { return strings.Replace(s.orders.page, "://", "://"+login, 1) + paused }
	reader, operator := newPerson(t), newPerson(t)
	reader.visit(withLogin("rob:of-rob@"))
	reader.click("these events")
	reader.want("rob may look · ", "a queue refused it")
	if has(value[string](reader, textOfPage), []string{"Discard"}) {
		t.Error("a reader may discard events")
	}
	operator.visit(withLogin("ann:of-ann@"))
	operator.click("replay them")
	operator.click("Replay")
	operator.want("1 event replayed", "ann may look and decide")
}
