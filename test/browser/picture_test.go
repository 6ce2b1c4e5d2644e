package browser

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "write the picture of the documentation, docs/images/overview.png")

const pictureBytes = 150 << 10 // at most

// TestThePictureOfTheOverview has a paused topic, failed events and numbers.
func TestThePictureOfTheOverview(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.fail(3, "order.cancelled", "a queue refused it")
	s.order("ann@example.com", "ben@example.com", "cleo@example.com")
	s.holdPause(s.orders)
	operator := newPerson(t)
	operator.look(1200, "light")
	operator.visit(s.orders.page)
	operator.await("3 events wait", "3 events of the topic order.cancelled failed")
	operator.visit(s.orders.page) // so that it is not being loaded again
	picture := get(operator, chromedp.Screenshot(chromedp.CSS("body")))
	if len(picture) > pictureBytes {
		t.Errorf("the picture has %d bytes, want at most %d", len(picture), pictureBytes)
	}
	if *update {
		must(t, os.WriteFile(filepath.Join(repository, "docs", "images", "overview.png"), picture, 0o644))
	}
}
